/// Several ranges of a payload in one body, `multipart/byteranges` (RFC 9110, 14.6).
struct PartsOfBlob: AsyncSequence, Sendable {
  typealias Element = Data
  typealias Failure = any Error

  private struct Part: Sendable {
    /// What stands before the bytes.
    let head: Data
    let pieces: PayloadPieces
  }

  private let parts: [Part]
  private let tail: Data
  let boundary: String

  init(_ blob: StoredBlob, _ ranges: [Range<Int64>], mediaType: String) {
    // By chance, so that no payload can have been made to contain it.
    let boundary =
      String(UInt64.random(in: .min ... .max), radix: 16) + String(UInt64.random(in: .min ... .max), radix: 16)
    parts = ranges.map { range in
      let head =
        "\r\n--\(boundary)\r\nContent-Type: \(mediaType)\r\n"
        + "Content-Range: bytes \(range.lowerBound)-\(range.upperBound - 1)/\(blob.byteCount)\r\n\r\n"
      return Part(head: Data(head.utf8), pieces: blob.pieces(of: range))
    }
    tail = Data("\r\n--\(boundary)--\r\n".utf8)
    self.boundary = boundary
  }

  var byteCount: Int64 {
    parts.reduce(Int64(tail.count)) { $0 + Int64($1.head.count) + Int64($1.pieces.range.count) }
  }

  func makeAsyncIterator() -> Iterator { Iterator(parts: self) }

  struct Iterator: AsyncIteratorProtocol {
    fileprivate let parts: PartsOfBlob
    private var index = 0
    private var pieces: PayloadPieces.Iterator?

    fileprivate init(parts: PartsOfBlob) { self.parts = parts }

    mutating func next() async throws -> Data? {
      if pieces != nil {
        if let piece = try await pieces!.next() { return piece }
        pieces = nil
        index += 1
      }
      guard index < parts.parts.count else {
        guard index == parts.parts.count else { return nil }
        index += 1
        return parts.tail
      }
      let part = parts.parts[index]
      pieces = part.pieces.makeAsyncIterator()
      return part.head
    }
  }
}
