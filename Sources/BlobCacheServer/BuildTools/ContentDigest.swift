internal import BlobRecord
internal import TextFormats

struct ContentDigest: Equatable {
  let text: String

  static let ofNothing = ContentDigest(SHA256Hasher().finalize())

  init?(_ text: String) {
    guard text.utf8.count == 2 * SHA256Digest.byteCount,
      text.utf8.allSatisfy({ (0x30...0x39).contains($0) || (0x61...0x66).contains($0) })
    else { return nil }
    self.text = text
  }

  private init(_ digest: [UInt8]) {
    text = Hexadecimal.text(digest)
  }

  fileprivate func check(_ hasher: consuming SHA256Hasher) throws(Refusal) {
    let found = ContentDigest(hasher.finalize())
    guard found == self else { throw Refusal(400, "the body has the SHA-256 \(found.text), and not that of its name") }
  }
}

extension MessageBody {
  /// Checks the digest at the end of the body. A body with another digest is not stored.
  func checked(_ digest: ContentDigest) throws(Refusal) -> MessageBody {
    var hasher = SHA256Hasher()
    switch self {
    // Requests never contain files.
    case .none, .omitted, .file: try digest.check(hasher)
    case .bytes(let data):
      hasher.update(data.bytes)
      try digest.check(hasher)
    case .stream(let byteCount, let pieces):
      return .stream(byteCount: byteCount, CheckedPieces(pieces: pieces, digest: digest))
    }
    return self
  }
}

private struct CheckedPieces: AsyncSequence, Sendable {
  typealias Element = Data
  typealias Failure = any Error

  let pieces: any AsyncSequence<Data, any Error> & Sendable
  let digest: ContentDigest

  func makeAsyncIterator() -> Iterator { Iterator(pieces: pieces.makeAsyncIterator(), digest: digest) }

  struct Iterator: AsyncIteratorProtocol {
    var pieces: any AsyncIteratorProtocol<Data, any Error>
    let digest: ContentDigest
    var hasher = SHA256Hasher()

    mutating func next() async throws -> Data? {
      guard let piece = try await pieces.next(isolation: nil) else {
        try digest.check(hasher)
        return nil
      }
      hasher.update(piece.bytes)
      return piece
    }
  }
}
