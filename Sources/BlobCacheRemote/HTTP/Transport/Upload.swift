#if Remote
  internal import BlobCache
  internal import Locks
  internal import NIOCore
  internal import NIOFoundationCompat

  /// The bytes of a record, as the client takes them, until it is closed.
  ///
  /// A server may answer before all bytes are sent. Then async-http-client 1.37 keeps a task that waits to send more, for
  /// ever. Closing takes the record and its open file from that task, which keeps one small part.
  final class Upload: AsyncSequence, Sendable {
    /// So much stays with each task that the client keeps.
    private static let partByteCount = 1 << 16

    private struct State {
      var pieces: RemoteRecordPieces.Iterator
      /// What is left of the latest piece.
      var rest = Data()
    }

    private let state: Lock<State?>

    init(_ pieces: RemoteRecordPieces) { state = Lock(State(pieces: pieces.makeAsyncIterator())) }

    /// What asks for more bytes gets an error.
    func close() {
      // It ends outside the lock, because it may close a file.
      let old = state.withLock { state in
        defer { state = nil }
        return state
      }
      _ = consume old
    }

    private func next() async throws -> ByteBuffer? {
      // The client asks for one part after another.
      guard var next = state.withLock({ $0 }) else { throw CancellationError() }
      if next.rest.isEmpty {
        guard let piece = try await next.pieces.next() else { return nil }
        next.rest = piece
      }
      let part = ByteBuffer(data: next.rest.prefix(Self.partByteCount))
      next.rest = next.rest.dropFirst(Self.partByteCount)
      state.withLock { [next] state in
        if state != nil { state = next }
      }
      return part
    }

    func makeAsyncIterator() -> Iterator { Iterator(upload: self) }

    struct Iterator: AsyncIteratorProtocol {
      fileprivate let upload: Upload

      mutating func next() async throws -> ByteBuffer? { try await upload.next() }
    }
  }
#endif
