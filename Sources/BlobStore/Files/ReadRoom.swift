internal import BlobRecord
internal import Synchronization

/// How a load reads a record's file: whole, into a buffer of one of two sizes, or its payload into its place.
///
/// Up to the size of the larger buffer, it costs less to copy a payload than to read by a second vector (250 ns) or to ask for
/// the file's size (400 ns).
enum ReadRoom: UInt8, AtomicRepresentable {
  /// What Swift's temporary allocations take from the stack, on any thread: 1024 bytes.
  case stack
  /// Payloads up to 8 KiB.
  case heap
  /// Nothing is read before the size is known, and small files to the stack then.
  case payload

  /// - Parameter fileByteCount: of a file that there is to be room for.
  init(fileByteCount: Int64) {
    self = [.stack, .heap].first { fileByteCount < $0.byteCount } ?? .payload
  }

  /// Bytes, of which the last stays free, or the file is larger.
  private var byteCount: Int {
    switch self {
    case .stack, .payload: 1024
    case .heap: RecordHeader.byteCount + 8192 + 1
    }
  }

  /// The same, but no room for payloads above the maximum.
  func byteCount(maximumPayload: Int64) -> Int {
    let besidesPayload = RecordHeader.byteCount + 1
    return besidesPayload + Int(min(Int64(byteCount - besidesPayload), maximumPayload))
  }

  /// What the next file is read by, after one that needed this. Once something was larger than the stack's, nothing is read
  /// to that unasked: sizes that take turns would cost more than the allocation does (50 ns).
  func next(_ needed: ReadRoom) -> ReadRoom {
    needed == .stack && self != .stack ? .heap : needed
  }
}
