internal import BlobCache

/// A payload, or a part of it, in pieces. Each is made when it is asked for, so that a slow reader holds one.
struct PayloadPieces: AsyncSequence, Sendable {
  typealias Element = Data
  typealias Failure = any Error

  enum Source: Sendable {
    case data(Data)
    case reader(CacheReader)
  }

  let source: Source
  /// Offsets in the payload.
  let range: Range<Int64>

  /// Bytes of a piece. Of a thousand slow readers, each holds two of them: one that is sent, one that is made.
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
      /// What is left.
      case data(Data)
      case reader(CacheReader.Pieces.Iterator)
    }

    fileprivate var source: Source

    /// - Throws: as `CacheReader.read`. The whole of an open file is verified before its last piece is given away.
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
  /// The bytes from one offset up to another.
  fileprivate subscript(offset range: Range<Int64>) -> Data {
    self[index(startIndex, offsetBy: Int(range.lowerBound))..<index(startIndex, offsetBy: Int(range.upperBound))]
  }
}
