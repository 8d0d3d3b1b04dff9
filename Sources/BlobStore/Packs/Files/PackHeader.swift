internal import BlobRecord
internal import Posix

/// The first 64 bytes of a pack, which never change once the pack has its name.
struct PackHeader {
  let words: [UInt64]

  init(number: Int, identifier: UInt64) {
    var words = [UInt64](repeating: 0, count: PackLayout.headerByteCount / 8)
    words[0] = PackLayout.magic
    words[PackLayout.versionOffset / 8] = PackLayout.version
    words[PackLayout.numberOffset / 8] = UInt64(number)
    words[PackLayout.chunkCountOffset / 8] = UInt64(PackLayout.chunkCount)
    words[PackLayout.chunkByteCountOffset / 8] = UInt64(PackLayout.chunkByteCount)
    words[PackLayout.identifierOffset / 8] = identifier
    words[PackLayout.crcOffset / 8] |= UInt64(Self.checksum(of: words)) << 32
    self.words = words
  }

  init(of file: borrowing OpenFile) throws {
    var words = [UInt64](repeating: 0, count: PackLayout.headerByteCount / 8)
    _ = try unsafe words.withUnsafeMutableBytes { try unsafe file.read(into: $0, at: 0) }
    self.words = words
  }

  var identifier: UInt64 { words[PackLayout.identifierOffset / 8] }

  var number: Int? {
    Int(exactly: words[PackLayout.numberOffset / 8]).flatMap { 0..<PackLayout.packCount ~= $0 ? $0 : nil }
  }

  var hasMagic: Bool { words[0] == PackLayout.magic }

  var version: UInt64 { words[PackLayout.versionOffset / 8] }

  /// Returns the reason why this is not the header of a pack, or `nil` if it is.
  func flaw(number: Int, identifier: UInt64?) -> String? {
    if words[PackLayout.crcOffset / 8] >> 32 != UInt64(Self.checksum(of: words)) { return "its head is damaged" }
    if words[PackLayout.numberOffset / 8] != UInt64(number) { return "it is a pack of another number" }
    if words[PackLayout.chunkCountOffset / 8] != UInt64(PackLayout.chunkCount)
      || words[PackLayout.chunkByteCountOffset / 8] != UInt64(PackLayout.chunkByteCount)
    {
      return "its chunks are of another size or count"
    }
    guard let identifier, identifier != self.identifier else { return nil }
    return "another pack of the number has been put in its place"
  }

  private static func checksum(of words: [UInt64]) -> UInt32 {
    CRC32.checksum(of: unsafe words.span.bytes.extracting(0..<PackLayout.crcOffset))
  }
}
