import BlobCacheServer
import Foundation

/// A body whose chunks are computed on demand, so that a test can act during the request.
struct MadePieces: AsyncSequence, Sendable {
  typealias Element = Data
  typealias Failure = any Error
  typealias Piece = @Sendable () async throws -> Data

  let pieces: [Piece]

  init(_ pieces: Piece...) { self.pieces = pieces }

  func body(told byteCount: Int?) -> MessageBody { .stream(byteCount: byteCount.map { Int64($0) }, self) }

  func makeAsyncIterator() -> Iterator { Iterator(rest: pieces[...]) }

  struct Iterator: AsyncIteratorProtocol {
    var rest: ArraySlice<Piece>

    mutating func next() async throws -> Data? { try await rest.popFirst()?() }
  }
}
