internal import BlobRecord

/// A walk over a range of a payload, piece by piece.
///
/// The checksum of a whole payload is compared with its last piece, which comes only if it is right.
package struct BlobPieces: Sendable {
  private let reader: BlobReader
  private let range: Range<Int64>
  private var offset: Int64
  private var checksum = CRC32()

  /// - Throws: `invalidRange`.
  package init(of range: Range<Int64>, in reader: BlobReader) throws(BlobStoreError) {
    try reader.check(range)
    self.reader = reader
    self.range = range
    offset = range.lowerBound
  }

  /// Memory for pieces of a size, or for all of the range if that is smaller. The caller frees it.
  package func makeBuffer(pieceSize: Int) -> UnsafeMutableRawBufferPointer {
    precondition(pieceSize > 0, "pieces of \(pieceSize) bytes")
    return UnsafeMutableRawBufferPointer.allocate(byteCount: min(pieceSize, max(range.count, 1)), alignment: 16)
  }

  /// Reads the next piece, as large as the buffer if there are so many bytes left.
  ///
  /// - Returns: how many bytes it has; 0 at the end.
  package mutating func next(into buffer: UnsafeMutableRawBufferPointer) throws -> Int {
    let count = Int(min(Int64(buffer.count), range.upperBound - offset))
    let piece = unsafe UnsafeMutableRawBufferPointer(rebasing: buffer[..<count])
    try unsafe reader.fill(piece, from: offset)
    offset += Int64(count)
    guard reader.isWhole(range) else { return count }
    checksum.update(unsafe RawSpan(_unsafeBytes: UnsafeRawBufferPointer(piece)))
    // An empty payload has a checksum too.
    if count > 0 ? offset == range.upperBound : range.isEmpty { try reader.compare(checksum.value) }
    return count
  }

  /// Reads bytes and drops them: the system has them in memory then, and they count for the checksum.
  ///
  /// - Returns: how many they are; 0 at the end.
  package mutating func pass(byteCount: Int) throws -> Int {
    let buffer = unsafe makeBuffer(pieceSize: min(byteCount, 128 << 10))
    defer { unsafe buffer.deallocate() }
    var passed = 0
    while passed < byteCount {
      let count = try unsafe next(into: buffer)
      guard count > 0 else { break }
      passed += count
    }
    return passed
  }
}
