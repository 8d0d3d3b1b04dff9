internal import BlobRecord

/// A record file as the counters see it.
struct RecordSize {
  var bytes: Int64
  var isLocked: Bool

  /// A record whose payload is not complete: it counts with its header alone, as a temporary file counts nothing.
  ///
  /// So its writer need not hold the key for each piece. The payload is counted with the commit.
  static let stream = RecordSize(bytes: Int64(RecordHeader.byteCount), isLocked: false)
}
