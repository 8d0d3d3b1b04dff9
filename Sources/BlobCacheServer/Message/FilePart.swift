internal import BlobCache
internal import BlobRecord
internal import BlobStore

/// A payload, or a part of it, in an open file from where the system can send it.
///
/// As a sequence, it has the stretches of the file that may be sent, in order: offsets, behind the header of the record.
/// The bytes of each were read before, so the system has them in memory. Of a whole payload, the last stretch comes once
/// the checksum is right.
public struct FilePart: AsyncSequence, Sendable {
  public typealias Element = Range<Int64>
  public typealias Failure = any Error

  let reader: CacheReader
  /// Offsets in the payload.
  let range: Range<Int64>
  /// Whether all of it was read and compared a short while ago.
  let isRead: Bool

  /// Bytes of a stretch that is read before it is sent.
  static var stretchSize: Int { 1 << 20 }

  public var byteCount: Int64 { Int64(range.count) }

  /// The bytes, for a transport that does not send from files.
  public var pieces: any AsyncSequence<Data, any Error> & Sendable {
    PayloadPieces(source: .reader(reader), range: range)
  }

  /// Calls a closure with the descriptor of the file, which is closed once nothing has this part any more.
  ///
  /// - Throws: what `body` throws.
  public func withDescriptor<Result>(_ body: (CInt) throws -> Result) rethrows -> Result {
    try reader.blocking.withDescriptor(body)
  }

  /// Fills memory with the bytes from an offset of the file on.
  ///
  /// - Throws: as `BlobReader.read(at:into:)`; `damaged` if the file has been cut off.
  public func read(at offset: Int64, into bytes: inout MutableRawSpan) throws {
    _ = try reader.blocking.read(at: offset - Int64(RecordHeader.byteCount), into: &bytes)
  }

  public func makeAsyncIterator() -> Iterator { Iterator(self) }

  public struct Iterator: AsyncIteratorProtocol {
    private let part: FilePart
    private var offset: Int64
    /// nil before the first stretch.
    private var walk: BlobPieces?

    fileprivate init(_ part: FilePart) {
      self.part = part
      offset = part.range.lowerBound
    }

    /// - Throws: as `CacheReader.read`; `damaged` in place of the last stretch.
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
