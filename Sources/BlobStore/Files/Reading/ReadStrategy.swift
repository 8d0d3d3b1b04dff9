internal import BlobRecord
internal import Synchronization

/// How a load reads a file: whole into a buffer, or its payload into its place.
///
/// There are two sizes of buffer. Up to the larger, a copy of the payload costs less than a second vector of the read
/// (250 ns), or than a look at the file's size (400 ns).
enum ReadStrategy: UInt8, AtomicRepresentable {
  /// The most that Swift's temporary allocations take from the stack, on any thread: 1024 bytes.
  case stack
  /// Payloads up to 8 KiB.
  case heap
  /// Nothing is read before the size is known, and small files to the stack then.
  case payload

  /// The largest payload that is read together with its header, and copied.
  static var copiedPayloadByteCount: Int64 { 8192 }

  /// - Parameter fileByteCount: the size of a file to read.
  init(fileByteCount: Int64) {
    self = [.stack, .heap].first { fileByteCount < $0.byteCount } ?? .payload
  }

  /// Bytes, of which the last stays free, or the file is larger.
  private var byteCount: Int {
    switch self {
    case .stack, .payload: 1024
    case .heap: RecordHeader.byteCount + Int(Self.copiedPayloadByteCount) + 1
    }
  }

  /// The bytes to read, without room for payloads above the maximum.
  func byteCount(maximumPayload: Int64) -> Int {
    let besidesPayload = RecordHeader.byteCount + 1
    return besidesPayload + Int(min(Int64(byteCount - besidesPayload), maximumPayload))
  }

  /// How to read the next file, after one that needed this.
  ///
  /// After a file larger than the stack's buffer, that buffer is not tried again unasked. With alternating sizes it
  /// would cost more than the allocation (50 ns).
  func next(_ needed: ReadStrategy) -> ReadStrategy {
    needed == .stack && self != .stack ? .heap : needed
  }
}
