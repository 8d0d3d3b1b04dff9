internal import BlobRecord
internal import Synchronization

/// The way in which a load reads a file: whole into a buffer, or the payload directly into its final memory.
///
/// There are two buffer sizes. Up to the larger one, a copy of the payload costs less than a second vector of the
/// read (250 ns) or a query of the file's size (400 ns).
enum ReadStrategy: UInt8, AtomicRepresentable {
  /// The largest temporary allocation that Swift takes from the stack, on any thread: 1024 bytes.
  case stack
  /// Payloads up to 8 KiB.
  case heap
  /// The file's size is queried before the read. Small files are then read to the stack.
  case payload

  /// The largest payload that is read together with its header, and copied.
  static var copiedPayloadByteCount: Int64 { 8192 }

  init(fileByteCount: Int64) {
    self = [.stack, .heap].first { fileByteCount < $0.byteCount } ?? .payload
  }

  /// The size of the buffer. A read that also fills its last byte shows that the file is larger.
  private var byteCount: Int {
    switch self {
    case .stack, .payload: 1024
    case .heap: RecordHeader.byteCount + Int(Self.copiedPayloadByteCount) + 1
    }
  }

  /// Returns the number of bytes to read, without space for payloads above the maximum.
  func byteCount(maximumPayload: Int64) -> Int {
    let besidesPayload = RecordHeader.byteCount + 1
    return besidesPayload + Int(min(Int64(byteCount - besidesPayload), maximumPayload))
  }

  /// Returns the strategy for the next file. After a file larger than the stack buffer, it is not tried again without
  /// a query of the size, because with alternating sizes that would cost more than the allocation (50 ns).
  func next(_ needed: ReadStrategy) -> ReadStrategy {
    needed == .stack && self != .stack ? .heap : needed
  }
}
