public import BlobRecord
internal import BlobStore
public import SystemPackage

// Contents of files, pipes and sockets are stored in pieces: never in memory as a whole, and not kept there.
extension BlobCache {
  /// Stores the content of a file, or of a named pipe until its end.
  ///
  /// It uses separate threads, so other stores do not wait for it. It holds no thread while a pipe has no data.
  ///
  /// - Parameters:
  ///   - path: The path of the file; symbolic links are followed.
  ///   - key: The key of the blob.
  ///   - ttl: The time to live, as for `store`.
  ///   - locks: The locks of the new record, as for `store`.
  ///   - extendedData: The extended data, as for `store`.
  ///   - expectedSize: The size of the payload in bytes, if known. Input of another size is not stored.
  ///   - visibility: `whileWriting` makes the blob visible immediately, and followers read it while it is written.
  ///   - moving: A Boolean value that indicates whether the file is removed after the store. It stays if it is not a
  ///     regular file, if the path is a link, or if it was modified in the meantime. With durability `full`, or
  ///     `automatic` and locks, the blob is durable before the removal; otherwise, a power failure may lose both.
  /// - Returns: The size of the payload in bytes.
  /// - Throws: The errors of `BlobStore.store(contentsOf:)`; `CancellationError`, with nothing stored, if the task is
  ///   cancelled while it waits for a thread or for data; `closed`.
  @discardableResult
  public func store(
    contentsOf path: FilePath, for key: BlobKey, ttl: Duration? = nil, locks: BlobStore.LockPolicy = .none,
    extendedData: Data? = nil, expectedSize: Int64? = nil, visibility: BlobStore.Visibility = .afterCommit,
    moving: Bool = false
  ) async throws -> Int64 {
    let engine = try openEngine()
    let byteCount = try await withSpan("store", key) {
      let source = try await engine.lanes.copies.run { _ in
        try engine.store.payloadSource(at: path, for: key, waits: false)
      }
      return try await engine.store(
        source, for: key, ttl: ttl, locks: locks, extendedData: extendedData, expectedSize: expectedSize,
        visibility, moving: moving)
    }
    await engine.wasStored(key)
    return byteCount
  }

  /// Stores the content of a file descriptor until its end: of a pipe, a socket, a terminal or a file.
  ///
  /// It uses separate threads, so other stores do not wait for it. It holds no thread while a pipe has no data.
  ///
  /// - Parameters:
  ///   - input: The descriptor, which must stay open until this returns, and must not be read by others.
  ///   - key: The key of the blob.
  ///   - ttl: The time to live, as for `store`.
  ///   - locks: The locks of the new record, as for `store`.
  ///   - extendedData: The extended data, as for `store`.
  ///   - expectedSize: The size of the payload in bytes, if known. Input of another size is not stored.
  ///   - visibility: `whileWriting` makes the blob visible immediately, and followers read it while it is written.
  /// - Returns: The size of the payload in bytes.
  /// - Throws: The errors of `BlobStore.store(contentsOf:)`; `CancellationError`, with nothing stored, if the task is
  ///   cancelled while it waits for a thread or for data; `closed`.
  @discardableResult
  public func store(
    contentsOf input: FileDescriptor, for key: BlobKey, ttl: Duration? = nil, locks: BlobStore.LockPolicy = .none,
    extendedData: Data? = nil, expectedSize: Int64? = nil, visibility: BlobStore.Visibility = .afterCommit
  ) async throws -> Int64 {
    let engine = try openEngine()
    let byteCount = try await withSpan("store", key) {
      try await engine.store(
        engine.store.payloadSource(of: input), for: key, ttl: ttl, locks: locks, extendedData: extendedData,
        expectedSize: expectedSize, visibility, moving: false)
    }
    await engine.wasStored(key)
    return byteCount
  }
}

extension CacheEngine {
  /// Stores the content of a source, on the lane of copies, so that slow sources do not block other stores.
  fileprivate func store(
    _ source: PayloadSource, for key: BlobKey, ttl: Duration?, locks: BlobStore.LockPolicy, extendedData: Data?,
    expectedSize: Int64?, _ visibility: BlobStore.Visibility, moving: Bool
  ) async throws -> Int64 {
    guard visibility == .whileWriting || !source.canBeReadAgain else {
      return try await lanes.copies.run { [self] queueTime in
        try storeFile(
          source, for: key, ttl: ttl, locks: locks, extendedData: extendedData, expectedSize: expectedSize,
          moving: moving, queueTime: queueTime)
      }
    }
    let writer = try await lanes.copies.run { [self] _ in
      try openWriter(
        for: key, ttl: ttl, locks: locks, expectedSize: expectedSize, extendedData: extendedData, visibility: visibility
      )
    }
    do {
      while try await !lanes.copies.run({ _ in try writer.append(from: source) }) {
        try await source.waitForBytes(by: readiness, for: key)
      }
      return try await lanes.copies.run { queueTime in
        let header = try writer.commit(queueTime: queueTime)
        if moving { try source.removeFile(storedAs: key) }
        return Int64(clamping: header.payloadSize)
      }
    } catch {
      await writer.giveUp(on: lanes.copies)
      throw error
    }
  }

  /// Stores a file. Blocks.
  fileprivate func storeFile(
    _ source: PayloadSource, for key: BlobKey, ttl: Duration?, locks: BlobStore.LockPolicy, extendedData: Data?,
    expectedSize: Int64?, moving: Bool, queueTime: Duration
  ) throws -> Int64 {
    let stopwatch = observer.stopwatch()
    let digest = try store.digest(of: key, for: "store")
    let change = KeyChange(of: key, in: self)
    let locks = change.wasStaged ? locks.replacingNothing : locks
    let byteCount = try generations.changing(digest) {
      let byteCount = try store.store(
        source, for: key, ttl: ttl, locks: locks, extendedData: extendedData, expectedSize: expectedSize)
      if moving { try source.removeFile(storedAs: key) }
      return byteCount
    }
    // This happens before the change ends, so that a concurrent fetch is not stored.
    remote?.didChange(key, byteCount: byteCount)
    change.finish()
    memory?.discard(key)
    failures.forget(key)
    backupExclusion.apply()
    observer.tell(
      CacheEvent(
        .stored(staged: false), key, byteCount: Int(byteCount), duration: stopwatch.elapsed, queueTime: queueTime))
    return byteCount
  }
}
