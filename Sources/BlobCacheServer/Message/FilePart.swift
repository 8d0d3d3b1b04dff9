internal import BlobCache
internal import BlobRecord
internal import BlobStore

/// A range of a payload in an open file, from which the system can send it directly.
///
/// The elements are file ranges in order, with offsets that include the record's header. Each was read before, so that
/// the system has it in memory. The last range of a complete payload follows after verification of the checksum.
public struct FilePart: AsyncSequence, Sendable {
  public typealias Element = Range<Int64>
  public typealias Failure = any Error

  let reader: CacheReader
  let range: Range<Int64>
  /// A Boolean value that indicates whether the range was read and verified a short time ago.
  let isRead: Bool

  static var stretchSize: Int { 1 << 20 }

  public var byteCount: Int64 { Int64(range.count) }

  /// The bytes, for a transport that cannot send from files.
  public var pieces: any AsyncSequence<Data, any Error> & Sendable {
    PayloadPieces(source: .reader(reader), range: range)
  }

  /// Calls a closure with the file's descriptor, which is closed when the last copy of this part is released.
  ///
  /// - Throws: Errors of `body`.
  public func withDescriptor<Result>(_ body: (CInt) throws -> Result) rethrows -> Result {
    try reader.blocking.withDescriptor(body)
  }

  /// Fills memory with the file's bytes from an offset on.
  ///
  /// - Throws: The errors of `BlobReader.read(at:into:)`; `damaged` if the file has been truncated.
  public func read(at offset: Int64, into bytes: inout MutableRawSpan) throws {
    _ = try reader.blocking.read(at: offset - Int64(RecordHeader.byteCount), into: &bytes)
  }

  public func makeAsyncIterator() -> Iterator { Iterator(self) }

  public struct Iterator: AsyncIteratorProtocol {
    private let part: FilePart
    private var offset: Int64
    private var walk: BlobPieces?

    fileprivate init(_ part: FilePart) {
      self.part = part
      offset = part.range.lowerBound
    }

    /// - Throws: The errors of `CacheReader.read`; `damaged` instead of the last range.
    public mutating func next() async throws -> Range<Int64>? {
      let start = offset
      guard start < part.range.upperBound else { return nil }
      if part.isRead {
        offset = part.range.upperBound
      } else {
        let walk = try self.walk ?? BlobPieces(of: part.range, in: part.reader.blocking)
        let (count, next) = try await part.reader.pass(walk, byteCount: FilePart.stretchSize)
        self.walk = next
        offset += Int64(count)
      }
      let header = Int64(RecordHeader.byteCount)
      return header + start..<header + offset
    }
  }
}
