public import BlobRecord
internal import BlobStore
internal import Locks

/// A blob that is stored in pieces: `BlobCache.openWriter`.
///
/// It is used by one task at a time, and holds no thread between calls. Without a commit, it stores nothing.
public final class CacheWriter: Sendable {
  public let key: BlobKey
  private let engine: CacheEngine
  /// The writer, or `nil` after its end and during a call.
  private let writer: Lock<BlobWriter?>

  init(_ engine: CacheEngine, _ writer: consuming BlobWriter) {
    key = writer.key
    self.engine = engine
    self.writer = Lock(writer)
  }

  /// Appends bytes to the payload, and returns when they are written.
  ///
  /// A source that is faster than the disk is slowed down. Because each call waits for a thread, pieces of 64 KiB and
  /// more are most efficient.
  ///
  /// - Throws: The errors of `BlobWriter.append`; `writerEnded`; `CancellationError` during the wait for a thread;
  ///   `closed`.
  public func append(_ bytes: Data) async throws {
    try await engine.lanes.writes.run { [self] _ in
      var writer = try take()
      // A failed writer refuses to commit.
      let outcome = Result { () throws(BlobStoreError) in try writer.append(bytes) }
      putBack(writer)
      try outcome.get()
    }
  }

  /// Stores the blob on disk, without keeping it in memory.
  ///
  /// - Returns: The header of the new record.
  /// - Throws: The errors of `BlobWriter.commit` and of `append`.
  @discardableResult
  public func commit() async throws -> RecordHeader {
    let header = try await engine.lanes.writes.run { [self] queueTime in try commit(queueTime: queueTime) }
    await engine.wasStored(key)
    return header
  }

  /// Commits like `commit()`. Blocks.
  func commit(queueTime: Duration) throws -> RecordHeader {
    try engine.commit(try take(), queueTime: queueTime)
  }

  /// Stores the blob if a closure accepts the present live record, or returns `nil` otherwise.
  package func commit(if judge: @escaping StoreCondition.Judge) async throws -> RecordHeader? {
    let header = try await engine.lanes.writes.run { [self] queueTime -> RecordHeader? in
      engine.writeStaged(key)
      do {
        return try engine.commit(try take(), if: StoreCondition(onRecord: judge), queueTime: queueTime)
      } catch is Superseded {
        return nil
      }
    }
    if header != nil { await engine.wasStored(key) }
    return header
  }

  /// Stores a blob from the remote tier, or throws `Superseded` if the condition does not hold.
  func commit(_ fetched: ReceivedFile<CacheWriter>, if condition: StoreCondition) async throws {
    try await engine.lanes.writes.run { [self] queueTime in
      var writer = try take()
      try writer.settle(
        asStoredAt: fetched.header.lastUpdate, byteCount: Int64(clamping: fetched.header.payloadSize),
        extendedData: fetched.extendedData)
      _ = try engine.commit(writer, if: condition, isFetched: true, queueTime: queueTime)
    }
  }

  /// Discards the blob; nothing of it remains.
  ///
  /// - Throws: The errors of `append`.
  public func discard() async throws {
    try await engine.lanes.writes.run { [self] _ in try take().discard() }
  }

  /// Appends the available bytes of a source, and returns whether it has ended. Blocks only for the disk.
  func append(from source: PayloadSource) throws -> Bool {
    var writer = try take()
    let outcome = Result { () throws(BlobStoreError) in try writer.append(from: source, waiting: false) }
    putBack(writer)
    return try outcome.get()
  }

  func finish(_ ending: StreamProducer.Ending) async throws {
    try await engine.lanes.writes.run { [self] queueTime in
      var writer = try take()
      try writer.settle(
        ttl: ending.ttl, locks: ending.locks, byteCount: ending.expectedSize, extendedData: ending.extendedData)
      guard ending.isStored else { return try writer.commitUnstored() }
      _ = try engine.commit(writer, queueTime: queueTime)
    }
    if ending.isStored { await engine.wasStored(key) }
  }

  /// Discards the blob, even if the task is cancelled, on a lane, which is by default the lane of stores.
  func giveUp(on lane: Lane?) async {
    await withCheckedContinuation { continuation in
      (lane ?? engine.lanes.writes).submit(.high) { [self] in
        dropWriter()
        continuation.resume()
      } orFail: { [self] _ in
        dropWriter()
        continuation.resume()
      }
    }
  }

  private func dropWriter() {
    // The writer is deallocated here, outside of the lock.
    _ = writer.withLock { writer in writer.take() }
  }

  private func take() throws -> BlobWriter {
    guard let taken = writer.withLock({ writer in writer.take() }) else {
      throw BlobCacheError(.writerEnded, "the writer has ended, or is in the middle of another call", key: key)
    }
    return taken
  }

  private func putBack(_ used: consuming BlobWriter) {
    var used: BlobWriter? = used
    writer.withLock { $0 = used.take() }
  }
}

extension CacheWriter: ReceivedPayloadWriter {
  func giveUp() async { await giveUp(on: nil) }
}
