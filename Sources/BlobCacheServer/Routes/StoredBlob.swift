internal import BlobCache
internal import BlobRecord

/// A blob that was found: in memory as a whole, or in a file that is open.
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

  /// A part of the payload. Of an open file, the checksum is compared if it is the whole, before its end is given away.
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
