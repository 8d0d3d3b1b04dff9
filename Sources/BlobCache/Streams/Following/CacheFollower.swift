public import BlobRecord
public import BlobStore
internal import Locks

/// A blob that is read while it is written: `BlobCache.openFollower`, `BlobCache.stream`.
///
/// It keeps its blob even if the key is replaced or removed, and bypasses memory. Any number of tasks may use it. They
/// do not hold a thread while they wait.
public final class CacheFollower: Sendable {
  /// The follower for code that may block. Its reads do not count for `maximumLead`.
  public let blocking: BlobFollower
  private let engine: CacheEngine
  /// The membership in the production of this process that writes the blob.
  private let reader: StreamTable.Reader?

  init(_ engine: CacheEngine, _ follower: BlobFollower, _ reader: StreamTable.Reader?) {
    self.engine = engine
    self.reader = reader
    blocking = follower
  }

  deinit {
    if let reader { engine.streams.leave(reader) }
  }

  public var key: BlobKey { blocking.key }
  /// The size of the payload at the last lookup, in bytes.
  public var byteCount: Int64 { blocking.byteCount }
  /// The record's header, or `nil` until the blob is known to be complete.
  public var header: RecordHeader? { blocking.header }
  /// The extended data, or `nil` if the blob has no such data or is not known to be complete.
  public var extendedData: Data? { blocking.extendedData }

  /// Returns the bytes from an offset on, as soon as some are available.
  ///
  /// The checksum is not verified.
  ///
  /// - Parameters:
  ///   - offset: The offset in the payload.
  ///   - count: The maximum number of bytes, above 0.
  /// - Returns: The bytes, which are empty at the end of the complete payload.
  /// - Throws: The errors of `BlobFollower.read` and of a producer in this process; `CancellationError`; `closed`.
  public func read(at offset: Int64, atMost count: Int = 256 << 10) async throws -> Data {
    precondition(count > 0, "a read of \(count) bytes")
    // For the producer, a read at an offset means that all earlier bytes were read.
    reader?.production.didRead(to: offset)
    let progress = try await progress(beyond: offset)
    return try await engine.lanes.reads.run { [blocking] _ in try blocking.read(at: offset, atMost: count, progress) }
  }

  /// Calls a closure with the pieces of the payload, in order, as they arrive, on a thread of the cache.
  ///
  /// It returns once the whole blob was read and its checksum verified. Until then, the pieces are not verified.
  ///
  /// - Parameters:
  ///   - pieceSize: The maximum size of a piece in bytes, above 0.
  ///   - body: A closure that receives each piece, which is valid until it returns; it may block.
  /// - Returns: The header of the record.
  /// - Throws: The errors of `body` and of `read`; `damaged` if the checksum is wrong.
  @discardableResult
  public func forEachPiece(
    pieceSize: Int = 256 << 10, _ body: @escaping @Sendable (RawSpan) throws -> Void
  ) async throws -> RecordHeader {
    var pieces = FollowedPieces(blocking)
    while true {
      let progress = try await progress(beyond: pieces.offset)
      let (count, next) = try await engine.lanes.reads.run { [pieces] _ in
        var pieces = pieces
        return (try pieces.withNext(atMost: pieceSize, progress, body), pieces)
      }
      pieces = next
      reader?.production.didRead(to: pieces.offset)
      if count == 0, let header { return header }
    }
  }

  /// Returns the payload in pieces, as they arrive.
  ///
  /// The sequence ends once the whole blob was read and its checksum verified. Until then, the pieces are not verified.
  ///
  /// - Parameter pieceSize: The maximum size of a piece in bytes, above 0.
  public func pieces(pieceSize: Int = 256 << 10) -> Pieces { Pieces(follower: self, pieceSize: pieceSize) }

  fileprivate func next(_ pieces: FollowedPieces, pieceSize: Int) async throws -> (piece: Data, FollowedPieces) {
    let progress = try await progress(beyond: pieces.offset)
    let next = try await engine.lanes.reads.run { _ in
      var pieces = pieces
      return (try pieces.next(atMost: pieceSize, progress), pieces)
    }
    reader?.production.didRead(to: next.1.offset)
    return next
  }

  private func progress(beyond offset: Int64) async throws -> FollowedProgress {
    // The waiting closures are listed by the followed stream, which also wakes callers that block.
    let number = Lock<UInt64?>(nil)
    do {
      return try await withCancellableContinuation { continuation in
        let begun = blocking.whenReady(beyond: offset) { continuation.resume(with: $0) }
        number.withLock { $0 = begun }
      } onCancel: {
        if let begun = number.withLock({ $0 }) { blocking.leave(begun, CancellationError()) }
      }
    } catch {
      guard (error as? BlobStoreError)?.code == .streamBroken, let reader else { throw error }
      // The production is about to end with its error.
      throw try await engine.streams.failure(of: reader.production) ?? error
    }
  }
}

extension CacheFollower {
  /// The pieces of a payload, in order, as they arrive.
  public struct Pieces: AsyncSequence, Sendable {
    let follower: CacheFollower
    let pieceSize: Int

    public func makeAsyncIterator() -> Iterator { Iterator(follower: follower, pieceSize: pieceSize) }

    public struct Iterator: AsyncIteratorProtocol {
      private var follower: CacheFollower?
      private let pieceSize: Int
      private var walk: FollowedPieces

      init(follower: CacheFollower, pieceSize: Int) {
        self.follower = follower
        self.pieceSize = pieceSize
        walk = FollowedPieces(follower.blocking)
      }

      /// Returns the next piece, or `nil` at the end and after an error.
      ///
      /// - Throws: The errors of `read`.
      public mutating func next() async throws -> Data? {
        guard let follower else { return nil }
        self.follower = nil
        let (piece, next) = try await follower.next(walk, pieceSize: pieceSize)
        guard !piece.isEmpty else { return nil }
        walk = next
        self.follower = follower
        return piece
      }
    }
  }
}

extension BlobCache {
  /// Opens the blob of a key that is live or being written. Reads wait for bytes that are not written yet.
  ///
  /// See `BlobStore.openFollower`. A staged blob of the key is written first.
  ///
  /// - Parameters:
  ///   - key: The key of the blob.
  ///   - timeout: The time that each read waits for another byte.
  ///   - touching: A Boolean value that indicates whether this counts as a use of the record.
  /// - Returns: A follower, or `nil` if the key has no live record and no writer.
  /// - Throws: The errors of `BlobStore.openFollower`; `CancellationError` during the wait for a thread; `closed`.
  public func openFollower(
    for key: BlobKey, timeout: Duration = .seconds(30), touching: Bool = true
  ) async throws -> CacheFollower? {
    let engine = try openEngine()
    return try await withSpan("openFollower", key) {
      try await engine.lanes.reads.run { queueTime in
        try engine.openFollower(for: key, timeout: timeout, touching: touching, queueTime: queueTime)
          .map { CacheFollower(engine, $0, nil) }
      }
    }
  }

  /// Opens the blob of a key, which is produced in pieces if it is missing.
  ///
  /// The first caller for a missing blob runs the producer. Concurrent callers, also in other processes, read the bytes
  /// that it has written and follow it. When the producer returns, the blob is stored. If it throws, nothing is stored;
  /// readers of this process get its error, and readers of other processes get `streamBroken`.
  ///
  /// The producer runs in a separate task, which is cancelled when the last reader of this process leaves, unless
  /// `finishesAlone` is set.
  ///
  /// - Parameters:
  ///   - key: The key of the blob.
  ///   - options: The options of the production and its readers.
  ///   - produce: A closure that writes the blob, and may set properties of the record until it returns.
  /// - Throws: The errors of `openFollower` and of `openWriter`.
  public func stream(
    _ key: BlobKey, options: StreamOptions = StreamOptions(),
    _ produce: @escaping @Sendable (_ writer: StreamProducer) async throws -> Void
  ) async throws -> CacheFollower {
    let engine = try openEngine()
    return try await withSpan("stream", key) { try await engine.stream(key, options, produce) }
  }
}
