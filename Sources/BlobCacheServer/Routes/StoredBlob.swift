internal import BlobCache
internal import BlobRecord

enum StoredBlob {
  case whole(Blob)
  case open(CacheReader)

  var header: RecordHeader {
    switch self {
    case .whole(let blob): blob.header
    case .open(let reader): reader.header
    }
  }

  var byteCount: Int64 { Int64(clamping: header.payloadSize) }

  var mediaType: MediaType? {
    switch self {
    case .whole(let blob): MediaType(extendedData: blob.extendedData)
    case .open(let reader): MediaType(extendedData: reader.blocking.extendedData)
    }
  }

  /// The whole payload of an open file is verified before its last bytes are sent.
  func body(of range: Range<Int64>) -> MessageBody {
    if case .open(let reader) = self, range.count > PayloadPieces.pieceSize {
      return .file(FilePart(reader: reader, range: range, isRead: false))
    }
    return .stream(byteCount: Int64(range.count), pieces(of: range))
  }

  func pieces(of range: Range<Int64>) -> PayloadPieces {
    switch self {
    case .whole(let blob): PayloadPieces(source: .data(blob.payload), range: range)
    case .open(let reader): PayloadPieces(source: .reader(reader), range: range)
    }
  }
}

/// Several ranges of a payload in one `multipart/byteranges` body (RFC 9110, 14.6).
struct PartsOfBlob: AsyncSequence, Sendable {
  typealias Element = Data
  typealias Failure = any Error

  private struct Part: Sendable {
    let head: Data
    let pieces: PayloadPieces
  }

  private let parts: [Part]
  private let tail: Data
  let boundary: String

  init(_ blob: StoredBlob, _ ranges: [Range<Int64>], mediaType: String) {
    // A random boundary, so that no payload can be crafted to contain it.
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

/// A range of a payload in pieces, which are created on demand, so that a slow reader holds only one.
struct PayloadPieces: AsyncSequence, Sendable {
  typealias Element = Data
  typealias Failure = any Error

  enum Source: Sendable {
    case data(Data)
    case reader(CacheReader)
  }

  let source: Source
  let range: Range<Int64>

  /// Each slow reader holds two pieces: one in transfer and one in preparation.
  static var pieceSize: Int { 64 << 10 }

  func makeAsyncIterator() -> Iterator {
    switch source {
    case .data(let data): Iterator(source: .data(data[offset: range]))
    case .reader(let reader):
      Iterator(source: .reader(reader.pieces(of: range, pieceSize: Self.pieceSize).makeAsyncIterator()))
    }
  }

  struct Iterator: AsyncIteratorProtocol {
    fileprivate enum Source {
      case data(Data)
      case reader(CacheReader.Pieces.Iterator)
    }

    fileprivate var source: Source

    /// The whole payload of an open file is verified before its last piece is returned.
    mutating func next() async throws -> Data? {
      switch source {
      case .data(let rest):
        guard !rest.isEmpty else { return nil }
        source = .data(rest.dropFirst(PayloadPieces.pieceSize))
        return rest.prefix(PayloadPieces.pieceSize)
      case .reader(var iterator):
        let piece = try await iterator.next()
        source = .reader(iterator)
        return piece
      }
    }
  }
}

extension Data {
  fileprivate subscript(offset range: Range<Int64>) -> Data {
    self[index(startIndex, offsetBy: Int(range.lowerBound))..<index(startIndex, offsetBy: Int(range.upperBound))]
  }
}
