#if Remote
  internal import BlobCache
  internal import Locks
  internal import NIOCore
  internal import NIOFoundationCompat

  /// The body of an upload. If a server responds before its end, async-http-client 1.37 leaks a task that waits
  /// forever. `close()` releases the record with its open file, so that the task retains little.
  final class Upload: AsyncSequence, Sendable {
    private static let partByteCount = 1 << 16

    private struct State {
      var pieces: RemoteRecordPieces.Iterator
      var rest = Data()
    }

    private let state: Lock<State?>

    init(_ pieces: RemoteRecordPieces) { state = Lock(State(pieces: pieces.makeAsyncIterator())) }

    /// Ends the upload. Further reads throw `CancellationError`.
    func close() {
      // The state is released outside the lock, because this may close a file.
      let old = state.withLock { state in
        defer { state = nil }
        return state
      }
      _ = consume old
    }

    private func next() async throws -> ByteBuffer? {
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
