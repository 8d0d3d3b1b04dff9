public import BlobRecord
internal import BlobStore
internal import Locks

/// A blob that is stored in pieces: `BlobCache.openWriter`.
///
/// It is used by one task at a time, and holds no thread between two calls. Dropped without a commit, it leaves nothing.
public final class CacheWriter: Sendable {
  public let key: BlobKey
  private let engine: CacheEngine
  /// nil once it has ended, and during a call.
  private let writer: Lock<BlobWriter?>

  init(_ engine: CacheEngine, _ writer: consuming BlobWriter) {
    key = writer.key
    self.engine = engine
    self.writer = Lock(writer)
  }

  /// Adds bytes at the end of the payload, and returns when they are written.
  ///
  /// So a source that is faster than the disk is held back. Each call waits for a thread: pieces of 64 KiB and more cost
  /// least.
  ///
  /// - Throws: as `BlobWriter.append`; `writerEnded`; `CancellationError` if the task is cancelled while it waits for a
  ///   thread; `closed`.
  public func append(_ bytes: Data) async throws {
    try await engine.lanes.writes.run { [self] _ in
      var writer = try take()
      // It knows of its failure, and does not commit then.
      let outcome = Result { () throws(BlobStoreError) in try writer.append(bytes) }
      putBack(writer)
      try outcome.get()
    }
  }

  /// Puts the blob in its place on disk. It is not kept in memory.
  ///
  /// - Returns: the header of the new record.
  /// - Throws: as `BlobWriter.commit`; as `append`.
  @discardableResult
  public func commit() async throws -> RecordHeader {
    let header = try await engine.lanes.writes.run { [self] queueTime in try commit(queueTime: queueTime) }
    await engine.wasStored(key)
    return header
  }

  /// Commits as `commit` does. Blocks.
  func commit(queueTime: Duration) throws -> RecordHeader {
    try engine.commit(try take(), queueTime: queueTime)
  }

  /// Puts the blob in its place if the live record there allows it; nil for none.
  ///
  /// - Returns: nil if it does not, and nothing was stored.
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

  /// Puts a blob that came from the remote tier in its place.
  ///
  /// - Throws: `Superseded` if the condition does not hold.
  func commit(_ fetched: ReceivedFile<CacheWriter>, if condition: StoreCondition) async throws {
    try await engine.lanes.writes.run { [self] queueTime in
      var writer = try take()
      try writer.settle(
        asStoredAt: fetched.header.lastUpdate, byteCount: Int64(clamping: fetched.header.payloadSize),
        extendedData: fetched.extendedData)
      _ = try engine.commit(writer, if: condition, isFetched: true, queueTime: queueTime)
    }
  }

  /// Gives the blob up; nothing of it remains.
  ///
  /// - Throws: as `append`.
  public func discard() async throws {
    try await engine.lanes.writes.run { [self] _ in try take().discard() }
  }

  /// Appends what a source yields at once. Blocks for the disk alone.
  ///
  /// - Returns: whether the source has ended.
  func append(from source: PayloadSource) throws -> Bool {
    var writer = try take()
    let outcome = Result { () throws(BlobStoreError) in try writer.append(from: source, waiting: false) }
    putBack(writer)
    return try outcome.get()
  }

  /// Ends as the producer of a stream has said.
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

  /// Gives the blob up, also in a task that is cancelled.
  ///
  /// - Parameter lane: where it is done; nil for that of stores.
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
    // It goes here, once the lock is free.
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
