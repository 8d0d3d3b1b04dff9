#if Remote
  internal import BlobCache

  /// An object in pieces of a mebibyte behind a smaller first one, each read when it is asked for.
  struct ValkeyPieces: AsyncSequence, Sendable {
    typealias Element = Data
    typealias Failure = any Error

    let engine: ValkeyEngine
    let name: RemoteName
    /// The first piece, which has come.
    let first: Data
    /// Bytes of the object in all.
    let byteCount: Int64

    func makeAsyncIterator() -> Iterator { Iterator(object: self) }

    struct Iterator: AsyncIteratorProtocol {
      let object: ValkeyPieces
      private var position: Int64 = 0

      init(object: ValkeyPieces) { self.object = object }

      mutating func next() async throws -> Data? {
        guard position > 0 else {
          position = Int64(object.first.count)
          return object.first
        }
        let rest = object.byteCount - position
        guard rest > 0 else { return nil }
        let count = Int(Swift.min(rest, Int64(ValkeyEngine.pieceByteCount)))
        let piece = try await object.engine.range(of: object.name, position, count)
        guard piece.count == count else { throw object.engine.changed(object.name) }
        position += Int64(count)
        return piece
      }
    }
  }
#endif
