internal import BlobCache
internal import BlobStore

/// A body on its way to the disk: pieces as they arrive are gathered to larger ones.
struct Upload {
  static let pieceSize = 256 << 10

  /// What was told of its size, in bytes.
  let byteCount: Int64?
  /// nil until the first gathered piece is there.
  var writer: CacheWriter?
  private var arrived: Int64 = 0
  private var gathered = Data()
  private let visibility: BlobStore.Visibility
  private let share: BodyShare

  /// - Parameters:
  ///   - visibility: `whileWriting` has each piece written as it comes, for those that follow.
  ///   - share: of the bytes that all bodies may have on the disk.
  init(byteCount: Int64?, _ visibility: BlobStore.Visibility, _ share: BodyShare) {
    self.byteCount = byteCount
    self.visibility = visibility
    self.share = share
  }

  /// - Returns: what is to be written now; nil for nothing yet.
  /// - Throws: 400 for more bytes than were told; 503 where all bodies together are too large.
  mutating func gather(_ piece: Data) throws(Refusal) -> Data? {
    arrived += Int64(piece.count)
    if let byteCount, arrived > byteCount { throw mismatch(byteCount) }
    try share.take(Int64(piece.count))
    gathered.append(piece)
    guard gathered.count >= Self.pieceSize || visibility == .whileWriting else { return nil }
    defer { gathered = Data() }
    return gathered
  }

  /// - Returns: what is left to write.
  /// - Throws: 400 for fewer bytes than were told.
  mutating func finish() throws(Refusal) -> Data {
    if let byteCount, arrived < byteCount { throw mismatch(byteCount) }
    defer { gathered = Data() }
    return gathered
  }

  private func mismatch(_ byteCount: Int64) -> Refusal {
    Refusal(400, "\(arrived) bytes arrived where \(byteCount) were told")
  }
}
