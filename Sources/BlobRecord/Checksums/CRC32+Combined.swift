internal import CZlib

extension CRC32 {
  /// The checksum of two runs of bytes, one behind the other, by the checksums of both.
  ///
  /// - Parameters:
  ///   - first: the checksum of the run before.
  ///   - second: the checksum of the run behind it.
  ///   - byteCount: the bytes of the run behind.
  /// - Complexity: O(log *n*) for *n* bytes behind: zlib's `crc32_combine`.
  public static func combined(_ first: UInt32, _ second: UInt32, byteCount: Int64) -> UInt32 {
    UInt32(truncatingIfNeeded: crc32_combine(UInt(first), UInt(second), numericCast(byteCount)))
  }
}
