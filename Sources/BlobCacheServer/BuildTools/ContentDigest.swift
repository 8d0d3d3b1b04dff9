internal import BlobRecord
internal import TextFormats

struct ContentDigest: Equatable, Sendable {
  let text: String

  static let ofNothing = ContentDigest(SHA256Hasher().finalize())

  init?(_ text: some StringProtocol) {
    guard text.utf8.count == 2 * SHA256Digest.byteCount,
      text.utf8.allSatisfy({ (0x30...0x39).contains($0) || (0x61...0x66).contains($0) })
    else { return nil }
    self.text = String(text)
  }

  init(_ digest: [UInt8]) {
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

/// Pieces whose last one is returned only if all of them together have the digest.
///
/// A receiver that knows the size of the whole therefore never gets all bytes of a payload with another digest.
struct CheckedPieces: AsyncSequence, Sendable {
  typealias Element = Data
  typealias Failure = any Error

  let pieces: any AsyncSequence<Data, any Error> & Sendable
  let digest: ContentDigest
  /// Receives whether the pieces have the digest, before the last one is returned.
  var whenHashed: @Sendable (Bool) -> Void = { _ in }

  func makeAsyncIterator() -> Iterator {
    Iterator(pieces: pieces.makeAsyncIterator(), digest: digest, whenHashed: whenHashed)
  }

  struct Iterator: AsyncIteratorProtocol {
    var pieces: any AsyncIteratorProtocol<Data, any Error>
    let digest: ContentDigest
    let whenHashed: @Sendable (Bool) -> Void
    private var hasher = SHA256Hasher()
    private var held: Data?
    private var isOver = false

    fileprivate init(
      pieces: any AsyncIteratorProtocol<Data, any Error>, digest: ContentDigest,
      whenHashed: @escaping @Sendable (Bool) -> Void
    ) {
      self.pieces = pieces
      self.digest = digest
      self.whenHashed = whenHashed
    }

    mutating func next() async throws -> Data? {
      while !isOver {
        guard let piece = try await pieces.next(isolation: nil) else {
          isOver = true
          try finish()
          return held.take()
        }
        hasher.update(piece.bytes)
        if let earlier = held {
          held = piece
          return earlier
        }
        held = piece
      }
      return nil
    }

    private func finish() throws(Refusal) {
      do throws(Refusal) {
        try digest.check(hasher)
      } catch {
        whenHashed(false)
        throw error
      }
      whenHashed(true)
    }
  }
}
