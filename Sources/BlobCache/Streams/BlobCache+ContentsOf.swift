public import BlobRecord
internal import BlobStore
public import SystemPackage

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
  ///   - visibility: `whileWriting` puts the blob in its place at once, and followers read it while it grows.
  ///   - moving: whether the file is removed once its blob is in place. It stays if it is not regular, if the path is a
  ///     link, or if it was written to meanwhile. With durability `full`, or `automatic` and locks, the blob is on the
  ///     medium before; with less, a power cut may take both.
  /// - Returns: the payload's size in bytes.
  /// - Throws: as `BlobStore.store(contentsOf:)`; `CancellationError` if the task is cancelled while it waits for a thread or
  ///   for bytes, nothing being stored; `closed`.
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
  ///   - visibility: `whileWriting` puts the blob in its place at once, and followers read it while it grows.
  /// - Returns: the payload's size in bytes.
  /// - Throws: as `BlobStore.store(contentsOf:)`; `CancellationError` if the task is cancelled while it waits for a thread or
  ///   for bytes, nothing being stored; `closed`.
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
  /// Stores what a source yields, without a thread while it yields nothing.
  ///
  /// All of it has the lane of copies, the commit too: slow ones keep no store from its thread.
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
      try store.store(
        source, for: key, ttl: ttl, locks: locks, extendedData: extendedData, expectedSize: expectedSize,
        moving: moving)
    }
    // Before the change ends: what is fetched meanwhile is not stored.
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
