internal import BlobStore
internal import Logging
internal import PosixFiles
internal import Locks
internal import SystemPackage

/// The engines of this process, by directory, so that two caches on one directory share one.
enum CacheRegistry {
  fileprivate struct Name: Hashable {
    let path: FilePath
    /// A forked child has none of its parent's threads, so its caches are its own.
    let forkCount: Int32
  }

  private struct Entry {
    let engine: CacheEngine
    /// Caches that are open.
    var holders: Int
  }

  private struct State {
    var entries: [Name: Entry] = [:]
    /// Of engines that no cache holds any more, while they bring to disk what is not there yet.
    var departures: [Name: Departure] = [:]

    mutating func depart(_ name: Name, _ engine: CacheEngine) {
      entries[name] = nil
      departures = departures.filter { !$0.value.isFinished }
      // The next one has to wait for what was staged; and for everything, where nothing else keeps their changes apart.
      // Without that, it leaves the one before it in its place.
      if engine.staging != nil || engine.configuration.store.sharing == .exclusive {
        departures[name] = engine.departure
      }
    }
  }

  private static let state = Lock(State())

  /// The engine of a directory, made if there is none. The caller gives it back by `release`.
  ///
  /// - Throws: `invalidConfiguration` if there is one that is configured otherwise.
  static func engine(
    for directory: FilePath, _ configuration: BlobCache.Configuration, _ files: Files
  ) throws -> CacheEngine {
    let name = Name(directory)
    return try state.withLock { state in
      if let entry = state.entries[name] {
        if let setting = entry.engine.configuration.difference(from: configuration) {
          throw BlobCacheError(
            .invalidConfiguration, "another cache of this process has this directory open with another \(setting)",
            path: directory)
        }
        state.entries[name] = Entry(engine: entry.engine, holders: entry.holders + 1)
        return entry.engine
      }
      let engine = CacheEngine(
        store: try BlobStore(directory: directory, configuration: configuration.store, files: files),
        configuration: configuration, after: state.departures[name])
      state.entries[name] = Entry(engine: engine, holders: 1)
      return engine
    }
  }

  /// - Returns: whether nobody else holds the engine: then it is to be shut down.
  static func release(_ engine: CacheEngine) -> Bool {
    state.withLock { state in
      guard let (name, entry) = state.entries.first(where: { $0.value.engine === engine }) else { return false }
      guard entry.holders == 1 else {
        state.entries[name] = Entry(engine: engine, holders: entry.holders - 1)
        return false
      }
      state.depart(name, engine)
      return true
    }
  }
}

extension CacheRegistry.Name {
  /// Links are followed as far as the path exists: what is missing, the first store makes.
  init(_ directory: FilePath) {
    path = Files().canonical(directory)
    forkCount = CurrentProcess.forkCount
  }
}

extension BlobCache.Configuration {
  /// A setting in which two configurations differ and that both must have alike; nil if there is none.
  func difference(from other: Self) -> String? {
    func differ<Value: Equatable>(_ path: KeyPath<Self, Value>) -> Bool { self[keyPath: path] != other[keyPath: path] }
    let settings: [(String, Bool)] = [
      ("layout", differ(\.store.layout)), ("format", differ(\.store.format)),
      ("default expiration", differ(\.store.defaultExpiration)), ("size limit", differ(\.store.sizeLimit)),
      ("count limit", differ(\.store.countLimit)), ("eviction target", differ(\.store.evictionTarget)),
      ("`collectsOnStore`", differ(\.store.collectsOnStore)),
      ("`recordsCollections`", differ(\.store.recordsCollections)),
      ("free space floor", differ(\.store.freeSpaceFloor)), ("maximum payload", differ(\.store.maximumPayload)),
      ("durability", differ(\.store.durability)), ("recycling", differ(\.store.recycling)),
      ("damage policy", differ(\.store.damagePolicy)),
      ("sharing", differ(\.store.sharing)), ("`createsDirectory`", differ(\.store.createsDirectory)),
      ("`allowsWorldWritableDirectory`", differ(\.store.allowsWorldWritableDirectory)),
      ("`leavesHint`", differ(\.store.leavesHint)), ("lock timeout", differ(\.store.lockTimeout)),
      ("memory", differ(\.memory)), ("way of writing", differ(\.writing)),
      ("touch interval", differ(\.touchInterval)), ("`excludesFromBackups`", differ(\.excludesFromBackups)),
    ]
    return settings.first { $0.1 }?.0
  }
}
