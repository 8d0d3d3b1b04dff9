public import BlobStore
internal import Locks
package import Posix
internal import Synchronization
public import SystemPackage

/// A cache of blobs, with recently used ones in memory and all of them on disk.
///
/// It has the methods of `BlobStore` in asynchronous form: blocking calls run on the cache's threads, and a memory
/// hit is answered on the caller's thread.
///
/// ```swift
/// let cache = try BlobCache(named: "covers")
/// let cover = try await cache.load("album/42") {
///   try await download("album/42")              // once, however many tasks ask
/// }
/// ```
///
/// A blob in memory is returned only while no process has changed it, and never after its expiry: Spec/Semantics.md,
/// V.
///
/// Two caches on one directory in one process share everything. When the last reference to a cache is released, it is
/// closed after all staged blobs are written.
public final class BlobCache: Sendable {
  let engine: CacheEngine
  private let isOver = Atomic(false)
  private let closing = Lock<Task<Result<Void, any Error>, Never>?>(nil)

  /// Creates a cache in a directory, which the first store creates. Nothing is accessed before the first use.
  ///
  /// The path is resolved and made absolute now, so a link that changes later does not move the cache.
  ///
  /// - Throws: `BlobStoreError` `invalidConfiguration`, or `BlobCacheError` `invalidConfiguration` if another cache
  ///   of this process has the directory open with a different configuration.
  /// - Complexity: O(1), at any size of the directory.
  public convenience init(directory: FilePath, configuration: Configuration = Configuration()) throws {
    try self.init(directory: directory, configuration: configuration, files: Files())
  }

  /// Creates a cache like `init(directory:configuration:)`, for a path in a string.
  public convenience init(directory: String, configuration: Configuration = Configuration()) throws {
    try self.init(directory: FilePath(directory), configuration: configuration)
  }

  /// Creates a cache like `init(directory:configuration:)`, for a file URL.
  ///
  /// - Throws: `BlobStoreError` `invalidConfiguration` also for a URL with a scheme other than `file`.
  public convenience init(directory: URL, configuration: Configuration = Configuration()) throws {
    try self.init(directory: try FilePath(directoryAt: directory), configuration: configuration)
  }

  /// - Parameter files: The access to the file system, in which tests inject failures.
  package init(directory: FilePath, configuration: Configuration, files: Files) throws {
    if let fault = configuration.remote?.fault {
      throw BlobCacheError(.invalidConfiguration, fault, path: directory)
    }
    engine = try CacheRegistry.engine(for: directory, configuration, files)
  }

  /// Creates a cache in the directory with this name in the user's cache directory: see `directory(named:)`.
  ///
  /// - Throws: `noCacheDirectory`, and the errors of `init(directory:configuration:)`.
  public convenience init(named name: String, configuration: Configuration = Configuration()) throws {
    try self.init(directory: try Self.directory(named: name), configuration: configuration)
  }

  deinit {
    guard !isOver.exchange(true, ordering: .relaxed), CacheRegistry.release(engine) else { return }
    guard engine.remote == nil else {
      // Uploads to the remote tier are read from the directory, so it stays open.
      Task { [engine] in
        // The errors were reported to the observer and logged; no caller waits for them.
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
  /// The effective configuration, which is the one of the first cache of this process on the directory.
  public var configuration: Configuration { engine.configuration }
  /// A Boolean value that indicates whether `close` was called.
  public var isClosed: Bool { isOver.load(ordering: .relaxed) }

  /// The underlying synchronous store, for methods that the cache lacks; it does not contain staged blobs.
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

  /// Closes the cache: writes staged blobs and the times of the latest uses to disk, and ends the threads.
  ///
  /// Current operations are finished. Later ones throw `closed`, as does a `load(_:orStore:)` whose producer returns
  /// later. Closing a closed cache has no effect, and a concurrent second call waits for the first.
  ///
  /// - Throws: `writeFailed` as in `flush`, to the first caller; the cache is closed nevertheless.
  public func close() async throws { try await close(flushingRemoteFor: nil) }

  /// Closes the cache like `close()`, with another time to wait for the remote tier than `flushesOnCloseFor`.
  package func close(flushingRemoteFor time: Duration?) async throws {
    let (task, isFirst) = closing.withLock { task in
      if let task { return (task, false) }
      isOver.store(true, ordering: .relaxed)
      // A separate task, because a cancelled caller must still close its cache.
      let first = Task { [engine] in await engine.close(flushingRemoteFor: time) }
      task = first
      return (first, true)
    }
    let result = await task.value
    if isFirst { try result.get() }
  }
}

extension CacheEngine {
  /// Closes one of the caches that use the engine.
  fileprivate func close(flushingRemoteFor time: Duration?) async -> Result<Void, any Error> {
    // This precedes the release, so that a concurrent release of another cache does not end the threads.
    let result = await settled()
    if CacheRegistry.release(self) {
      // Pending uploads may still have to read the directory.
      await remote?.close(flushingFor: time)
      shutDown()
      await departed()
    }
    return result
  }

  /// Waits for the work that continues after `shutDown`.
  fileprivate func departed() async {
    await remote?.close()
    await lanes.closed()
    // With exclusive access, the next cache waits for `shutdownLatch`, and must not find a running collection.
    if configuration.store.access.sharing == .exclusive { await endCollection() }
    shutdownLatch.finish()
    observer.events.finish()
  }

  /// Ends a collection that a store has started. No store is left that could wait for the space that it frees.
  private func endCollection() async {
    await withCheckedContinuation { continuation in
      do {
        try OwnedThread {
          self.store.endCollection()
          continuation.resume()
        }
      } catch {
        // Without a thread, the collection ends with the engine.
        continuation.resume()
      }
    }
  }

  /// Writes uses and staged blobs to disk.
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

  /// Ends the schedule and closes the lanes, which still perform their queued work.
  fileprivate func shutDown() {
    stopSchedule()
    lanes.upkeep.submit(.medium) { self.touches.write(all: true) }
    // If the system cannot create a thread, staged blobs are lost.
    if staging != nil { lanes.writes.submit(.medium) { self.finishWriting() } }
    lanes.close()
  }
}

extension BlobCache {
  /// Returns the directory of a cache with this name, in the user's cache directory.
  ///
  /// That is `$XDG_CACHE_HOME`, or `~/.cache` if it is not an absolute path, or `Library/Caches` on Apple platforms.
  ///
  /// - Parameter name: One or more path components, such as `com.example.app/covers`, except `.` and `..`.
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

  /// Source: XDG Base Directory Specification 0.8, which requires that relative paths are ignored.
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
