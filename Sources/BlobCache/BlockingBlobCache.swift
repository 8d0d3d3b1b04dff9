public import BlobRecord
public import BlobStore
public import SystemPackage

/// The verbs of a cache for code that is not asynchronous. Each blocks its thread for as long as the disk takes: not for
/// the main thread of an app, nor for a task.
public struct BlockingBlobCache: Sendable {
  let cache: BlobCache
}

extension BlobCache {
  /// This cache with synchronous verbs.
  public var blocking: BlockingBlobCache { BlockingBlobCache(cache: self) }
}

// Errors are those of the asynchronous verbs, but for CancellationError.
extension BlockingBlobCache {
  /// As `BlobCache.load(_:touching:)`.
  public func load(_ key: BlobKey, touching: Bool = true) throws -> Blob? {
    try cache.openEngine().load(key, touching: touching)
  }

  /// As `BlobCache.load(prefix:touching:choosing:)`.
  public func load(prefix: String, touching: Bool = true, choosing choose: ([BlobKey]) -> BlobKey?) throws -> Blob? {
    try cache.openEngine().load(prefix: prefix, touching: touching, choosing: choose)
  }

  /// As `BlobCache.load(_:touching:)` of many keys.
  public func load(_ keys: some Sequence<BlobKey>, touching: Bool = true) throws -> [LoadResult] {
    let engine = try cache.openEngine()
    return keys.map { engine.loadResult(of: $0, touching: touching, queueTime: .zero) }
  }

  /// As `BlobCache.store(_:for:ttl:locks:extendedData:)`.
  public func store(
    _ payload: Data, for key: BlobKey, ttl: Duration? = nil, locks: BlobStore.LockPolicy = .none,
    extendedData: Data? = nil
  ) throws {
    let request = StoreRequest(payload: payload, ttl: ttl, locks: locks, extendedData: extendedData)
    try cache.openEngine().store(request, for: key)
  }

  /// As `BlobCache.contains(_:)`.
  public func contains(_ key: BlobKey) throws -> Bool { try cache.openEngine().contains(key) }

  /// As `BlobCache.header(for:)`.
  public func header(for key: BlobKey) throws -> RecordHeader? { try cache.openEngine().header(for: key) }

  /// As `BlobCache.touch(_:)`.
  @discardableResult
  public func touch(_ key: BlobKey) throws -> BlobStore.Outcome { try cache.openEngine().touch(key) }

  /// As `BlobCache.lock(_:)`.
  @discardableResult
  public func lock(_ key: BlobKey) throws -> BlobStore.Outcome { try cache.openEngine().lock(key) }

  /// As `BlobCache.unlock(_:force:)`.
  @discardableResult
  public func unlock(_ key: BlobKey, force: Bool = false) throws -> BlobStore.Outcome {
    try cache.openEngine().unlock(key, force: force)
  }

  /// As `BlobCache.remove(_:purging:)`.
  @discardableResult
  public func remove(_ key: BlobKey, purging: Bool = false) throws -> BlobStore.Outcome {
    let engine = try cache.openEngine()
    return try engine.purging(purging) { try engine.remove(key, erasing: purging) }
  }

  /// As `BlobCache.touch(_:)` of many keys.
  public func touch(_ keys: some Sequence<BlobKey>) throws -> [BlobStore.KeyResult] {
    let engine = try cache.openEngine()
    return engine.each(Array(keys)) { try engine.touch($0) }
  }

  /// As `BlobCache.lock(_:)` of many keys.
  public func lock(_ keys: some Sequence<BlobKey>) throws -> [BlobStore.KeyResult] {
    let engine = try cache.openEngine()
    return engine.each(Array(keys)) { try engine.lock($0) }
  }

  /// As `BlobCache.unlock(_:force:)` of many keys.
  public func unlock(_ keys: some Sequence<BlobKey>, force: Bool = false) throws -> [BlobStore.KeyResult] {
    let engine = try cache.openEngine()
    return engine.each(Array(keys)) { try engine.unlock($0, force: force) }
  }

  /// As `BlobCache.remove(_:purging:)` of many keys.
  public func remove(_ keys: some Sequence<BlobKey>, purging: Bool = false) throws -> [BlobStore.KeyResult] {
    let engine = try cache.openEngine()
    return try engine.purging(purging) { engine.each(Array(keys)) { try engine.remove($0, erasing: purging) } }
  }

  /// As `BlobCache.records(prefix:)`.
  public func records(prefix: String = "") throws -> some Sequence<RecordEntry> {
    let engine = try cache.openEngine()
    try engine.flushStaged()
    return try engine.store.records(prefix: prefix)
  }

  /// As `BlobCache.usage()`.
  public func usage() throws -> BlobStore.Usage {
    let engine = try cache.openEngine()
    try engine.flushStaged()
    return try engine.store.usage()
  }

  /// As `BlobCache.usageEstimate()`.
  public func usageEstimate() throws -> BlobStore.UsageEstimate? { try cache.openEngine().store.usageEstimate() }

  /// As `BlobCache.removeAll(_:_:)`; what stops it is `isStopped`.
  @discardableResult
  public func removeAll(
    _ scope: BlobStore.RemovalScope, _ options: BlobStore.RemovalOptions = .init()
  ) throws -> BlobStore.RemovalReport {
    try cache.openEngine().removeAll(scope, options)
  }

  /// As `BlobCache.withExclusiveAccess(to:_:)`, on the caller's thread.
  public func withExclusiveAccess<Result>(to key: BlobKey, _ body: (FilePath) throws -> Result) throws -> Result {
    try cache.openEngine().withExclusiveAccess(to: key, body)
  }

  /// As `BlobCache.collect(_:)`.
  @discardableResult
  public func collect(_ options: BlobStore.CollectionOptions = .init()) throws -> BlobStore.CollectionReport {
    try cache.openEngine().collect(options.givingUp { [cache] in cache.isClosed })
  }

  /// As `BlobCache.trim(to:_:)`.
  @discardableResult
  public func trim(
    to goal: BlobStore.TrimGoal, _ options: BlobStore.CollectionOptions = .init()
  ) throws -> BlobStore.CollectionReport {
    try cache.openEngine().trim(to: goal, options.givingUp { [cache] in cache.isClosed })
  }

  /// As `BlobCache.flush()`.
  public func flush() throws { try cache.openEngine().flushStaged() }

  /// As `BlobCache.flush(_:)`.
  public func flush(_ key: BlobKey) throws { try cache.openEngine().flushStaged(key) }
}

extension BlockingBlobCache {
  /// `load`; a subscript that can throw cannot be set: `store` and `remove`.
  public subscript(key: BlobKey) -> Blob? {
    get throws { try load(key) }
  }
}

extension BlockingBlobCache {
  /// As `BlobCache.extendedData(for:)`.
  public func extendedData(for key: BlobKey) throws -> Data? { try cache.openEngine().extendedData(for: key) }

  /// As `BlobCache.setExtendedData(_:for:)`.
  @discardableResult
  public func setExtendedData(_ data: Data?, for key: BlobKey) throws -> BlobStore.Outcome {
    try cache.openEngine().setExtendedData(data, for: key)
  }
}
