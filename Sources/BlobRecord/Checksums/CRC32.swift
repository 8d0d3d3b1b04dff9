internal import CZlib

/// The CRC-32 of IEEE 802.3, as zlib computes it, over bytes that arrive in pieces.
///
/// By zlib; on Linux by ISA-L instead where that library is installed, which is many times as fast on processors with
/// instructions for carry-less multiplication. On Apple's platforms libz uses these instructions itself.
public struct CRC32: Sendable {
  /// The checksum of the bytes so far; 0 for none.
  public private(set) var value: UInt32 = 0

  private let avoidsISAL: Bool

  public init() { avoidsISAL = false }

  /// - Parameter avoidsISAL: whether zlib computes it even where ISA-L is installed.
  package init(avoidsISAL: Bool) { self.avoidsISAL = avoidsISAL }

  /// Adds bytes to the checksum.
  ///
  /// - Complexity: O(*n*). A byte takes a fiftieth of a nanosecond with AVX-512, a tenth with narrower instructions, and a
  ///   nanosecond without: Spec/Benchmarks.md.
  public mutating func update(_ bytes: RawSpan) {
    value = unsafe bytes.withUnsafeBytes { buffer in
      // zlib answers a null pointer with the initial value, not with `value`.
      guard let base = buffer.baseAddress, buffer.count > 0 else { return value }
      let start = unsafe base.assumingMemoryBound(to: UInt8.self)
      if !avoidsISAL, let checksum = unsafe ISAL.checksum { return unsafe checksum(value, start, UInt64(buffer.count)) }
      return UInt32(truncatingIfNeeded: unsafe crc32_z(UInt(value), start, buffer.count))
    }
  }

  public static func checksum(of bytes: RawSpan) -> UInt32 {
    var crc = CRC32()
    crc.update(bytes)
    return crc.value
  }

  /// The library that computes checksums in this process, with its version.
  package static var library: String { library(isISAL: unsafe ISAL.checksum != nil) }

  package static func library(isISAL: Bool) -> String {
    isISAL ? "ISA-L (\(ISAL.libraryName))" : unsafe "zlib \(String(cString: zlibVersion()))"
  }
}

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
