internal import BlobStore
internal import Logging
internal import Posix
internal import Locks
internal import SystemPackage

/// The engines of this process by directory, because all caches on one directory share an engine.
enum CacheRegistry {
  fileprivate struct Name: Hashable {
    let path: FilePath
    /// A forked child does not inherit its parent's threads, so it has separate engines.
    let forkCount: Int32
  }

  private struct Entry {
    let engine: CacheEngine
    /// The identity of the directory when the engine was created.
    let directory: FileIdentity?
    var holders: Int

    func leads(to found: FileIdentity) -> Bool {
      guard directory == found || engine.tenant.has(found) else { return false }
      return FileIdentity(at: engine.tenant.path) == found
    }
  }

  private struct State {
    var entries: [Name: Entry] = [:]
    /// The latches of engines without caches that still write to disk.
    var shutdownLatches: [Name: ShutdownLatch] = [:]

    func other(_ name: Name, _ directory: FileIdentity?) -> Name? {
      guard let directory else { return nil }
      return entries.first { $0.key.forkCount == name.forkCount && $0.value.leads(to: directory) }?.key
    }

    mutating func depart(_ name: Name, _ engine: CacheEngine) {
      entries[name] = nil
      shutdownLatches = shutdownLatches.filter { !$0.value.isFinished }
      // The next engine must wait for staged blobs, and for all work if no locks on disk order the changes of both
      // engines. Otherwise the latch of an earlier engine is kept.
      if engine.staging != nil || engine.configuration.store.access.sharing == .exclusive {
        shutdownLatches[name] = engine.shutdownLatch
      }
    }
  }

  private static let state = Lock(State())

  /// Returns the engine of a directory, and creates it if necessary; release it with `release`.
  ///
  /// - Throws: `invalidConfiguration` if the existing engine has other settings, and the errors of `BlobStore.init`.
  static func engine(
    for directory: FilePath, _ configuration: BlobCache.Configuration, _ files: Files
  ) throws -> CacheEngine {
    let name = try Name(directory)
    let found = FileIdentity(at: name.path)
    return try state.withLock { state in
      let known = state.entries[name] != nil ? name : state.other(name, found)
      if let known, let entry = state.entries[known] {
        if let setting = entry.engine.configuration.difference(from: configuration) {
          throw BlobCacheError(
            .invalidConfiguration, "another cache of this process has this directory open with another \(setting)",
            path: directory)
        }
        entry.engine.tenant.share(by: name.path)
        state.entries[known]?.holders += 1
        return entry.engine
      }
      let tenant = DirectoryTenant(
        path: name.path, isExclusive: configuration.store.access.sharing == .exclusive, shutdownLatch: ShutdownLatch())
      // The store gets the resolved path, so that links that change later do not affect the engine.
      let store = try BlobStore(
        directory: name.path, configuration: configuration.store, files: files, holder: tenant)
      tenant.setStore(store)
      let engine = CacheEngine(
        store: store, configuration: configuration, tenant: tenant, after: state.shutdownLatches[name])
      state.entries[name] = Entry(engine: engine, directory: found, holders: 1)
      return engine
    }
  }

  /// - Returns: `true` if this was the engine's last cache, so that it must be shut down.
  static func release(_ engine: CacheEngine) -> Bool {
    state.withLock { state in
      guard let (name, entry) = state.entries.first(where: { $0.value.engine === engine }) else { return false }
      guard entry.holders == 1 else {
        state.entries[name]?.holders -= 1
        return false
      }
      state.depart(name, engine)
      return true
    }
  }
}

extension CacheRegistry.Name {
  /// Follows links as far as the path exists; the first store creates the rest.
  init(_ directory: FilePath) throws(BlobStoreError) {
    do {
      // The store reports an empty path as an error.
      path = directory.isEmpty ? directory : try Files().canonical(directory)
    } catch {
      throw BlobStoreError(anything: error, operation: "open", key: nil)
    }
    forkCount = CurrentProcess.forkCount
  }
}

extension BlobCache.Configuration {
  /// Returns the name of a setting that must be equal but differs, or `nil`.
  func difference(from other: Self) -> String? {
    func differ<Field: Equatable>(_ path: KeyPath<Self, Field>) -> Bool { self[keyPath: path] != other[keyPath: path] }
    let settings: [(String, Bool)] = [
      ("layout", differ(\.store.layout)), ("format", differ(\.store.format)),
      ("default expiration", differ(\.store.expiry.defaultTimeToLive)), ("size limit", differ(\.store.limits.size)),
      ("count limit", differ(\.store.limits.count)), ("eviction target", differ(\.store.limits.evictionTarget)),
      ("eviction", differ(\.store.limits.eviction)),
      ("`collectsOnStore`", differ(\.store.limits.collectsOnStore)),
      ("`recordsCollections`", differ(\.store.access.recordsCollections)),
      ("free space floor", differ(\.store.limits.freeSpaceFloor)), ("maximum payload", differ(\.store.limits.payload)),
      ("durability", differ(\.store.durability)), ("recycling", differ(\.store.recycling)),
      ("packing", differ(\.store.packing)), ("damage policy", differ(\.store.damagePolicy)),
      ("sharing", differ(\.store.access.sharing)), ("`createsDirectory`", differ(\.store.access.createsDirectory)),
      ("`access.allowsWorldWritable`", differ(\.store.access.allowsWorldWritable)),
      ("`recordsConfiguration`", differ(\.store.access.recordsConfiguration)),
      ("lock timeout", differ(\.store.access.lockTimeout)),
      ("remote tier", !remoteAgrees(with: other)), ("memory", differ(\.memory)), ("way of writing", differ(\.writing)),
      ("touch interval", differ(\.touchInterval)), ("`excludesFromBackups`", differ(\.excludesFromBackups)),
    ]
    return settings.first { $0.1 }?.0
  }

  private func remoteAgrees(with other: Self) -> Bool {
    switch (remote, other.remote) {
    case (nil, nil): true
    case (let remote?, let other?): remote.agrees(with: other)
    default: false
    }
  }
}
