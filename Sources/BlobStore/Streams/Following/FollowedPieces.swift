internal import BlobRecord

/// A walk over a payload that grows, piece by piece. At its end, the checksum was right.
package struct FollowedPieces: Sendable {
  private let follower: BlobFollower
  package private(set) var offset: Int64 = 0
  private var checksum = CRC32()

  package init(_ follower: BlobFollower) { self.follower = follower }

  /// Reads what is there, as much as the buffer holds.
  ///
  /// - Parameter progress: what a wait for bytes behind `offset` has answered.
  /// - Returns: how many bytes it has; 0 at the end.
  package mutating func next(into buffer: UnsafeMutableRawBufferPointer, _ progress: FollowedProgress) throws -> Int {
    let count = try unsafe follower.fill(buffer, from: offset, progress)
    offset += Int64(count)
    checksum.update(unsafe RawSpan(_unsafeBytes: UnsafeRawBufferPointer(rebasing: buffer[..<count])))
    if count == 0, let header = progress.header { try follower.compare(checksum.value, with: header) }
    return count
  }

  /// Calls a closure with the next piece; with an empty one at the end.
  ///
  /// - Parameters:
  ///   - pieceSize: bytes at most, above 0.
  ///   - progress: what a wait for bytes behind `offset` has answered.
  ///   - body: receives the piece, which is gone when it returns.
  package mutating func withNext<Result>(
    atMost pieceSize: Int, _ progress: FollowedProgress, _ body: (RawSpan) throws -> Result
  ) throws -> Result {
    precondition(pieceSize > 0, "pieces of \(pieceSize) bytes")
    let size = Int(max(1, min(Int64(pieceSize), progress.byteCount - offset)))
    let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: size, alignment: 16)
    defer { unsafe buffer.deallocate() }
    let count = try withErrorContext("load", follower.key) { try unsafe next(into: buffer, progress) }
    return try body(unsafe RawSpan(_unsafeBytes: UnsafeRawBufferPointer(rebasing: buffer[..<count])))
  }
}
