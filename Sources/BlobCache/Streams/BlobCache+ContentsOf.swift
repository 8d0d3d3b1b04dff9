public import BlobRecord
internal import BlobStore
internal import Posix
public import SystemPackage

#if canImport(FoundationEssentials)
  public import FoundationEssentials
#else
  public import Foundation
#endif

// What files, pipes and sockets hold, in pieces: never in memory as a whole, and not kept there.
extension BlobCache {
  /// Stores a file's content, or what a named pipe yields until its end.
  ///
  /// It has threads of its own, so no store waits behind it; while a pipe yields nothing, it takes none.
  ///
  /// - Parameters:
  ///   - path: the file's; links are followed.
  ///   - key: what it is found by.
  ///   - ttl: the time to live; as for `store`.
  ///   - locks: the locks of the new record; as for `store`.
  ///   - extendedData: what lies beside the payload; as for `store`.
  ///   - expectedSize: the payload's size in bytes, where it is known. Input of another size is not stored.
  ///   - moving: whether the file is removed once its blob is in place. It stays if it is not regular, if the path is a
  ///     link, or if it was written to meanwhile.
  /// - Returns: the payload's size in bytes.
  /// - Throws: as `BlobStore.store(contentsOf:)`; `CancellationError` if the task is cancelled while it waits for a thread or
  ///   for bytes, nothing being stored; `closed`.
  @discardableResult
  public func store(
    contentsOf path: FilePath, for key: BlobKey, ttl: Duration? = nil, locks: BlobStore.LockPolicy = .none,
    extendedData: Data? = nil, expectedSize: Int64? = nil, moving: Bool = false
  ) async throws -> Int64 {
    let engine = try openEngine()
    return try await withSpan("store", key) {
      let source = try await engine.lanes.copies.run { _ in
        try engine.store.payloadSource(at: path, for: key, waits: false)
      }
      return try await engine.store(
        source, for: key, ttl: ttl, locks: locks, extendedData: extendedData, expectedSize: expectedSize,
        moving: moving)
    }
  }

  /// Stores what a descriptor yields until its end: of a pipe, a socket, a terminal or a file.
  ///
  /// It has threads of its own, so no store waits behind it; while a pipe yields nothing, it takes none.
  ///
  /// - Parameters:
  ///   - input: must stay open until this returns, and nothing else may read from it.
  ///   - key: what it is found by.
  ///   - ttl: the time to live; as for `store`.
  ///   - locks: the locks of the new record; as for `store`.
  ///   - extendedData: what lies beside the payload; as for `store`.
  ///   - expectedSize: the payload's size in bytes, where it is known. Input of another size is not stored.
  /// - Returns: the payload's size in bytes.
  /// - Throws: as `BlobStore.store(contentsOf:)`; `CancellationError` if the task is cancelled while it waits for a thread or
  ///   for bytes, nothing being stored; `closed`.
  @discardableResult
  public func store(
    contentsOf input: FileDescriptor, for key: BlobKey, ttl: Duration? = nil, locks: BlobStore.LockPolicy = .none,
    extendedData: Data? = nil, expectedSize: Int64? = nil
  ) async throws -> Int64 {
    let engine = try openEngine()
    return try await withSpan("store", key) {
      try await engine.store(
        engine.store.payloadSource(of: input), for: key, ttl: ttl, locks: locks, extendedData: extendedData,
        expectedSize: expectedSize, moving: false)
    }
  }
}

extension BlockingBlobCache {
  /// As `BlobCache.store(contentsOf:for:ttl:locks:extendedData:expectedSize:moving:)`; it waits for a pipe's bytes.
  @discardableResult
  public func store(
    contentsOf path: FilePath, for key: BlobKey, ttl: Duration? = nil, locks: BlobStore.LockPolicy = .none,
    extendedData: Data? = nil, expectedSize: Int64? = nil, moving: Bool = false
  ) throws -> Int64 {
    let engine = try cache.openEngine()
    let source = try engine.store.payloadSource(at: path, for: key, waits: true)
    guard !source.canBeReadAgain else {
      return try engine.storeFile(
        source, for: key, ttl: ttl, locks: locks, extendedData: extendedData, expectedSize: expectedSize,
        moving: moving, queueTime: .zero)
    }
    var writer = try engine.store.openWriter(
      for: key, ttl: ttl, locks: locks, expectedSize: expectedSize, extendedData: extendedData)
    try writer.append(from: source, waiting: true)
    return Int64(clamping: try engine.commit(writer, queueTime: .zero).payloadSize)
  }
}

extension CacheEngine {
  /// Stores what a source yields, without a thread while it yields nothing.
  fileprivate func store(
    _ source: PayloadSource, for key: BlobKey, ttl: Duration?, locks: BlobStore.LockPolicy, extendedData: Data?,
    expectedSize: Int64?, moving: Bool
  ) async throws -> Int64 {
    guard !source.canBeReadAgain else {
      return try await lanes.copies.run { [self] queueTime in
        try storeFile(
          source, for: key, ttl: ttl, locks: locks, extendedData: extendedData, expectedSize: expectedSize,
          moving: moving, queueTime: queueTime)
      }
    }
    let writer = try await lanes.copies.run { [self] _ in
      CacheWriter(
        self,
        try store.openWriter(
          for: key, ttl: ttl, locks: locks, expectedSize: expectedSize, extendedData: extendedData))
    }
    while try await !lanes.copies.run({ _ in try writer.append(from: source) }) {
      try await readiness.wait(for: source.awaitedDescriptor)
    }
    return Int64(clamping: try await writer.commit().payloadSize)
  }

  /// Stores a file. Blocks.
  fileprivate func storeFile(
    _ source: PayloadSource, for key: BlobKey, ttl: Duration?, locks: BlobStore.LockPolicy, extendedData: Data?,
    expectedSize: Int64?, moving: Bool, queueTime: Duration
  ) throws -> Int64 {
    let stopwatch = observer.stopwatch()
    let digest = try store.digest(of: key, for: "store")
    let byteCount = try replacing(key) { wasStaged in
      try generations.changing(digest) {
        try store.store(
          source, for: key, ttl: ttl, locks: wasStaged ? locks.replacingNothing : locks, extendedData: extendedData,
          expectedSize: expectedSize, moving: moving)
      }
    }
    memory?.discard(key)
    failures.forget(key)
    backupExclusion.apply()
    observer.tell(
      CacheEvent(
        .stored(staged: false), key, byteCount: Int(byteCount), duration: stopwatch.elapsed, queueTime: queueTime))
    return byteCount
  }
}
