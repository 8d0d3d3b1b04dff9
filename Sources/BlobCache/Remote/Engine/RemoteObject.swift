public import BlobRecord

/// An object that a remote engine has begun to send.
public struct RemoteObject: Sendable {
  /// The bytes that it has in all; nil if the engine does not say.
  public let byteCount: Int64?
  /// When it was put there, by the engine's clock; nil if the engine does not say.
  public var modified: UnixTime?
  /// The bytes in pieces. It is iterated once, and ends with an error where bytes are missing.
  public let pieces: any AsyncSequence<Data, any Error> & Sendable

  public init(byteCount: Int64?, pieces: any AsyncSequence<Data, any Error> & Sendable) {
    self.byteCount = byteCount
    self.pieces = pieces
  }

  /// An object that has come whole.
  public init(_ bytes: Data) {
    self.init(byteCount: Int64(bytes.count), pieces: OnePiece(bytes: bytes))
  }
}

private struct OnePiece: AsyncSequence, Sendable {
  typealias Element = Data
  typealias Failure = any Error

  let bytes: Data

  func makeAsyncIterator() -> Iterator { Iterator(rest: bytes) }

  struct Iterator: AsyncIteratorProtocol {
    fileprivate var rest: Data?
    mutating func next() async throws -> Data? { rest.take() }
  }
}
