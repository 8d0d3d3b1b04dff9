public import BlobRecord
public import BlobStore
internal import Locks

/// A blob that is read while it is written: `BlobCache.openFollower`, `BlobCache.stream`.
///
/// It keeps its blob, whatever becomes of the key. What it reads does not go to memory. Any number of tasks may use it, and
/// none of them holds a thread while it waits.
public final class CacheFollower: Sendable {
  /// The blob for code that may block. What it reads there does not count for `maximumLead`.
  public let blocking: BlobFollower
  private let engine: CacheEngine
  /// The production of this process that writes the blob, which counts its readers.
  private let production: StreamProduction?

  init(_ engine: CacheEngine, _ follower: BlobFollower, _ production: StreamProduction?) {
    self.engine = engine
    self.production = production
    blocking = follower
  }

  deinit { production?.leave() }

  public var key: BlobKey { blocking.key }
  /// Bytes of payload that were there at the last look.
  public var byteCount: Int64 { blocking.byteCount }
  /// The record's header, once the blob is known to be whole; nil before.
  public var header: RecordHeader? { blocking.header }
  /// What lies beside the payload, once the blob is known to be whole; nil before, and for nothing.
  public var extendedData: Data? { blocking.extendedData }

  /// The bytes from an offset on, as soon as there are some.
  ///
  /// The checksum is not compared.
  ///
  /// - Parameters:
  ///   - offset: in the payload.
  ///   - count: bytes at most, above 0.
  /// - Returns: no bytes at the end of the whole payload.
  /// - Throws: as `BlobFollower.read`; the error of the producer, where it runs in this process; `CancellationError`;
  ///   `closed`.
  public func read(at offset: Int64, atMost count: Int = 256 << 10) async throws -> Data {
    precondition(count > 0, "a read of \(count) bytes")
    // What lies before is not read any more, as far as the producer has to know.
    production?.didRead(to: offset)
    let progress = try await progress(beyond: offset)
    return try await engine.lanes.reads.run { [blocking] _ in try blocking.read(at: offset, atMost: count, progress) }
  }

  /// Calls a closure with the pieces of the payload, in order, as they come, on a thread of the cache's.
  ///
  /// It returns once the whole blob was read and has its checksum. Until then, no piece is known to be sound.
  ///
  /// - Parameters:
  ///   - pieceSize: bytes of a piece at most, above 0.
  ///   - body: receives each piece, which is gone when it returns; it may block.
  /// - Returns: the header of the record.
  /// - Throws: what `body` throws; as `read`; `damaged` if the checksum is wrong.
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
      production?.didRead(to: pieces.offset)
      if count == 0, let header { return header }
    }
  }

  /// The payload in pieces, as they come.
  ///
  /// It ends once the whole blob was read and has its checksum. Until then, no piece is known to be sound.
  ///
  /// - Parameter pieceSize: bytes of a piece at most, above 0.
  public func pieces(pieceSize: Int = 256 << 10) -> Pieces { Pieces(follower: self, pieceSize: pieceSize) }

  fileprivate func next(_ pieces: FollowedPieces, pieceSize: Int) async throws -> (piece: Data, FollowedPieces) {
    let progress = try await progress(beyond: pieces.offset)
    let next = try await engine.lanes.reads.run { _ in
      var pieces = pieces
      return (try pieces.next(atMost: pieceSize, progress), pieces)
    }
    production?.didRead(to: next.1.offset)
    return next
  }

  /// Waits for bytes behind an offset, and holds no thread.
  private func progress(beyond offset: Int64) async throws -> FollowedProgress {
    let wait = FollowerWait(blocking)
    do {
      return try await withTaskCancellationHandler {
        try await withCheckedThrowingContinuation { wait.begin(beyond: offset, $0) }
      } onCancel: {
        wait.cancel()
      }
    } catch {
      guard (error as? BlobStoreError)?.code == .streamBroken, let production else { throw error }
      // It is about to say why.
      await production.end.wait()
      throw production.failure ?? error
    }
  }
}

extension CacheFollower {
  /// The pieces of a payload, in order, as they come.
  public struct Pieces: AsyncSequence, Sendable {
    let follower: CacheFollower
    let pieceSize: Int

    public func makeAsyncIterator() -> Iterator { Iterator(follower: follower, pieceSize: pieceSize) }

    public struct Iterator: AsyncIteratorProtocol {
      /// nil after the last piece, and after an error.
      private var follower: CacheFollower?
      private let pieceSize: Int
      private var walk: FollowedPieces

      init(follower: CacheFollower, pieceSize: Int) {
        self.follower = follower
        self.pieceSize = pieceSize
        walk = FollowedPieces(follower.blocking)
      }

      /// - Returns: nil at the end, and after an error.
      /// - Throws: as `read`.
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

/// One wait of a task for more bytes, which may be cancelled before it has begun.
private final class FollowerWait: Sendable {
  private enum State {
    case new, cancelled
    case begun(UInt64)
  }

  private let follower: BlobFollower
  private let state = Lock(State.new)

  init(_ follower: BlobFollower) { self.follower = follower }

  func begin(beyond offset: Int64, _ continuation: CheckedContinuation<FollowedProgress, any Error>) {
    guard let number = follower.whenReady(beyond: offset, { continuation.resume(with: $0) }) else { return }
    let isCancelled = state.withLock { state in
      if case .cancelled = state { return true }
      state = .begun(number)
      return false
    }
    if isCancelled { follower.leave(number, CancellationError()) }
  }

  func cancel() {
    let number = state.withLock { state -> UInt64? in
      defer { state = .cancelled }
      if case .begun(let number) = state { return number }
      return nil
    }
    if let number { follower.leave(number, CancellationError()) }
  }
}

// Blobs that are read while they are written.
extension BlobCache {
  /// Opens the blob of a key that is live or being written. Reads wait for bytes that are not written yet.
  ///
  /// See `BlobStore.openFollower`. A blob that is staged for the key is written first.
  ///
  /// - Parameters:
  ///   - key: the blob's.
  ///   - timeout: how long each read waits for another byte.
  ///   - touching: whether this is a use of the record.
  /// - Returns: nil if there is no record, or it is expired and not locked.
  /// - Throws: as `BlobStore.openFollower`; `CancellationError` if the task is cancelled while it waits for a thread;
  ///   `closed`.
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

  /// A reader of the blob of a key, which is produced piece by piece if it is missing.
  ///
  /// The first that asks for a missing blob runs the producer. All that ask meanwhile read what it has written and follow it,
  /// also in other processes. When the producer returns, the blob is stored. If it throws, nothing is stored, and the
  /// readers of this process get its error, those of others `streamBroken`.
  ///
  /// The producer is a task of its own. It is cancelled when the last reader of this process is gone, unless
  /// `finishesAlone` is set.
  ///
  /// - Parameters:
  ///   - key: the blob's.
  ///   - options: how it is produced and read.
  ///   - produce: writes the blob. It may say of the record what it knows only then.
  /// - Throws: as `openFollower`, `openWriter`.
  public func stream(
    _ key: BlobKey, options: StreamOptions = StreamOptions(),
    _ produce: @escaping @Sendable (_ writer: StreamProducer) async throws -> Void
  ) async throws -> CacheFollower {
    let engine = try openEngine()
    return try await withSpan("stream", key) { try await engine.stream(key, options, produce) }
  }
}
