internal import BlobRecord
internal import BlobStore

/// The bytes of a record on its way to a remote engine.
public struct RemoteRecordPieces: AsyncSequence, Sendable {
  let record: RemoteRecord

  public func makeAsyncIterator() -> Iterator { Iterator(record: record) }

  public struct Iterator: AsyncIteratorProtocol, Sendable {
    private static let pieceSize: Int64 = 1 << 20

    private enum Step {
      case head, tail, end
      case payload(from: Int64)
    }

    private let record: RemoteRecord
    private var step = Step.head
    /// Of what was read so far.
    private var checksum = CRC32()

    init(record: RemoteRecord) { self.record = record }

    /// - Returns: nil at the end, and after an error.
    /// - Throws: `BlobStoreError` `fileSystem`, or `damaged` before the last bytes of a payload with a wrong checksum;
    ///   `CancellationError`.
    public mutating func next() async throws -> Data? {
      while true {
        switch step {
        case .head:
          step = .payload(from: 0)
          return record.head
        case .payload(let offset):
          // An error is the last.
          step = .end
          let piece = try await payload(from: offset)
          step = piece.isEmpty ? .tail : .payload(from: offset + Int64(piece.count))
          if !piece.isEmpty { return piece }
        case .tail:
          step = .end
          if !record.tail.isEmpty { return record.tail }
        case .end: return nil
        }
      }
    }

    private mutating func payload(from offset: Int64) async throws -> Data {
      switch record.payload {
      case .memory(let payload): return offset == 0 ? payload : Data()
      case .file(let file):
        let end = Swift.min(offset + Self.pieceSize, file.reader.byteCount)
        guard offset < end else { return Data() }
        let piece = try await file.lane.run { [reader = file.reader] _ in try reader.read(offset..<end) }
        checksum.update(piece.bytes)
        if end == file.reader.byteCount, let wanted = file.reader.header.payloadChecksum, wanted != checksum.value {
          // The store's own message, and its rule for damaged files.
          try await file.lane.run { [reader = file.reader] _ in try reader.verify() }
        }
        return piece
      }
    }
  }
}
