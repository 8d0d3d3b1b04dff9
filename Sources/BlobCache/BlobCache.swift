public import BlobStore
internal import Locks
package import Posix
internal import Synchronization
public import SystemPackage

/// A cache of blobs: recently used ones in memory, all of them on disk.
///
/// The verbs are those of `BlobStore`, asynchronous: calls that block run on the cache's threads. A hit in memory is
/// answered where the caller is.
///
/// ```swift
/// let cache = try BlobCache(named: "covers")
/// let cover = try await cache.load("album/42") {
///   try await download("album/42")              // once, however many tasks ask
/// }
/// ```
///
/// A blob is answered from memory only while no process has changed it, and never past its time: Spec/Semantics.md, V.
///
/// Two caches on one directory in one process share everything. The last reference closes a cache, after it has written
/// what is staged.
public final class BlobCache: Sendable {
  let engine: CacheEngine
  private let isOver = Atomic(false)
  /// Set by the first call that closes it.
  private let closing = Lock<Task<Result<Void, any Error>, Never>?>(nil)

  /// Takes a directory as a cache. Nothing in it is read or made here; the first store makes the directory.
  ///
  /// The cache lies where the path leads now: links are followed here, and a relative path is made absolute. A link
  /// that changes later does not move the cache.
  ///
  /// - Throws: `BlobStoreError` `invalidConfiguration`; `BlobCacheError` `invalidConfiguration` if another cache of this
  ///   process has the directory open and is configured otherwise.
  /// - Complexity: O(1), at any size of the directory.
  public convenience init(directory: FilePath, configuration: Configuration = Configuration()) throws {
    try self.init(directory: directory, configuration: configuration, files: Files())
  }

  /// As `init(directory:configuration:)`, for a path in a string.
  public convenience init(directory: String, configuration: Configuration = Configuration()) throws {
    try self.init(directory: FilePath(directory), configuration: configuration)
  }

  /// As `init(directory:configuration:)`, for a file URL.
  ///
  /// - Throws: `BlobStoreError` `invalidConfiguration` also for a URL of another scheme than `file`.
  public convenience init(directory: URL, configuration: Configuration = Configuration()) throws {
    try self.init(directory: try FilePath(directoryAt: directory), configuration: configuration)
  }

  /// - Parameter files: where tests put their faults.
  package init(directory: FilePath, configuration: Configuration, files: Files) throws {
    if let fault = configuration.remote?.fault {
      throw BlobCacheError(.invalidConfiguration, fault, path: directory)
    }
    engine = try CacheRegistry.engine(for: directory, configuration, files)
  }

  /// Takes a directory of this name under the platform's directory for caches: `$XDG_CACHE_HOME` or `~/.cache` on Linux,
  /// `Caches` in the user's library on Apple's platforms.
  ///
  /// - Throws: as `init(directory:configuration:)`; `noCacheDirectory`.
  public convenience init(named name: String, configuration: Configuration = Configuration()) throws {
    try self.init(directory: try Self.directory(named: name), configuration: configuration)
  }

  deinit {
    guard !isOver.exchange(true, ordering: .relaxed), CacheRegistry.release(engine) else { return }
    guard engine.remote == nil else {
      // What goes to the remote tier is read from the directory.
      Task { [engine] in
        // The observer and the log have been told of its errors, and no caller waits for them.
        _ = await engine.settled()
        await engine.remote?.close()
        engine.shutDown()
        await engine.departed()
      }
      return
    }
    engine.shutDown()
    Task { [engine] in await engine.departed() }
  }

  public var directory: FilePath { engine.store.directory }
  /// The configuration in force: that of the first cache of this process on the directory.
  public var configuration: Configuration { engine.configuration }
  /// Whether `close` was called.
  public var isClosed: Bool { isOver.load(ordering: .relaxed) }

  /// The synchronous store beneath, for verbs that the cache lacks.
  ///
  /// It does not see what is staged.
  public var store: BlobStore { engine.store }
}

extension BlobCache {
  /// - Throws: `closed`.
  func openEngine() throws -> CacheEngine {
    guard !isOver.load(ordering: .relaxed) else {
      throw BlobCacheError(.closed, "the cache was closed", path: directory)
    }
    return engine
  }

  /// Writes what is staged and the latest uses, and ends the threads.
  ///
  /// Operations under way are finished. Later ones throw `closed`, and so does a `load(_:orStore:)` whose producer
  /// returns later. Closing a closed cache does nothing. A second call meanwhile waits for the first.
  ///
  /// - Throws: `writeFailed`, as `flush`, to the first caller. The cache is closed all the same.
  public func close() async throws {
    let (task, isFirst) = closing.withLock { task in
      if let task { return (task, false) }
      isOver.store(true, ordering: .relaxed)
      // A task that was cancelled closes its cache all the same.
      let first = Task { [engine] in await engine.close() }
      task = first
      return (first, true)
    }
    let result = await task.value
    if isFirst { try result.get() }
  }
}

extension CacheEngine {
  /// Closes one of the caches that hold the engine.
  fileprivate func close() async -> Result<Void, any Error> {
    // Until then it is held: another cache that is let go meanwhile does not end the threads.
    let result = await settled()
    if CacheRegistry.release(self) {
      // What it sends may still have to be read.
      await remote?.close()
      shutDown()
      await departed()
    }
    return result
  }

  /// The work that goes on after `shutDown` has ended.
  fileprivate func departed() async {
    await remote?.close()
    await lanes.closed()
    // Only the next cache uses the directory then, and it waits for this one's `shutdownLatch`.
    if configuration.store.access.sharing == .exclusive { await endCollection() }
    shutdownLatch.finish()
    observer.events.finish()
  }

  /// Ends the collection that a store has started. After all stores, which may have waited for the room that it makes.
  private func endCollection() async {
    await withCheckedContinuation { continuation in
      do {
        try OwnedThread {
          self.store.endCollection()
          continuation.resume()
        }
      } catch {
        // Without a thread, it ends when the engine does.
        continuation.resume()
      }
    }
  }

  /// Brings to disk what is not there yet.
  fileprivate func settled() async -> Result<Void, any Error> {
    do {
      try await lanes.upkeep.run { _ in
        self.touches.write(all: true)
        try self.flushStaged()
      }
      return .success(())
    } catch {
      return .failure(error)
    }
  }

  /// Ends what goes on by itself. The lanes still do what waits.
  fileprivate func shutDown() {
    stopSchedule()
    lanes.upkeep.submit(.medium) { self.touches.write(all: true) }
    // Where there is no thread for it, what is staged is lost.
    if staging != nil { lanes.writes.submit(.medium) { self.finishWriting() } }
    lanes.close()
  }
}

extension BlobCache {
  /// The directory of a cache with this name, in the user's directory for caches.
  ///
  /// That is `$XDG_CACHE_HOME`, or `~/.cache` where that is not set or not absolute. On Apple's platforms it is the
  /// user's `Library/Caches`.
  ///
  /// - Parameter name: one or more path components, such as `com.example.app/covers`; none of them `.` or `..`.
  /// - Throws: `noCacheDirectory`.
  public static func directory(named name: String) throws -> FilePath {
    try directory(named: name, environment: ProcessInfo.processInfo.environment)
  }

  package static func directory(named name: String, environment: [String: String]) throws -> FilePath {
    let path = FilePath(name)
    let isPlain = path.components.allSatisfy { $0.kind == .regular } && path.root == nil && !name.utf8.contains(0)
    guard !path.isEmpty, isPlain else {
      throw BlobCacheError(.noCacheDirectory, "\"\(name)\" is no name for a directory of its own")
    }
    return try cachesDirectory(environment).appending(path.components)
  }

  /// Source: XDG Base Directory Specification 0.8: relative paths are to be ignored.
  private static func cachesDirectory(_ environment: [String: String]) throws -> FilePath {
    #if canImport(Darwin)
      return FilePath(URL.cachesDirectory.path(percentEncoded: false))
    #else
      let candidates = [
        environment["XDG_CACHE_HOME"].map { FilePath($0) },
        environment["HOME"].map { FilePath($0).appending(".cache") },
      ]
      guard let path = candidates.compactMap({ $0 }).first(where: { $0.isAbsolute }) else {
        throw BlobCacheError(.noCacheDirectory, "neither XDG_CACHE_HOME nor HOME is set to an absolute path")
      }
      return path
    #endif
  }
}
