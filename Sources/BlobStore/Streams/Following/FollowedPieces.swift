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
    if count == 0 { try follower.judge(progress, computed: checksum.value) }
    return count
  }

  /// Reads what is there.
  ///
  /// - Parameters:
  ///   - pieceSize: bytes at most, above 0.
  ///   - progress: what a wait for bytes behind `offset` has answered.
  /// - Returns: no bytes at the end.
  package mutating func next(atMost pieceSize: Int, _ progress: FollowedProgress) throws -> Data {
    precondition(pieceSize > 0, "pieces of \(pieceSize) bytes")
    let piece = try follower.read(at: offset, atMost: pieceSize, progress)
    offset += Int64(piece.count)
    checksum.update(piece.bytes)
    if piece.isEmpty {
      try withErrorContext("load", follower.key) { try follower.judge(progress, computed: checksum.value) }
    }
    return piece
  }

  /// Calls a closure with the next piece, unless it is the end.
  ///
  /// - Parameters:
  ///   - pieceSize: bytes at most, above 0.
  ///   - progress: what a wait for bytes behind `offset` has answered.
  ///   - body: receives the piece, which is gone when it returns.
  /// - Returns: how many bytes it has.
  package mutating func withNext(
    atMost pieceSize: Int, _ progress: FollowedProgress, _ body: (RawSpan) throws -> Void
  ) throws -> Int {
    precondition(pieceSize > 0, "pieces of \(pieceSize) bytes")
    let size = Int(max(1, min(Int64(pieceSize), progress.byteCount - offset)))
    let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: size, alignment: 16)
    defer { unsafe buffer.deallocate() }
    let count = try withErrorContext("load", follower.key) { try unsafe next(into: buffer, progress) }
    if count > 0 { try body(unsafe RawSpan(_unsafeBytes: UnsafeRawBufferPointer(rebasing: buffer[..<count]))) }
    return count
  }
}
