internal import CZlib

/// An incremental CRC-32 checksum (IEEE 802.3), as computed by zlib.
///
/// On Linux, ISA-L computes the checksum if that library is installed; it is many times faster than zlib on
/// processors with carry-less multiplication. On Apple platforms, libz uses these instructions itself.
public struct CRC32: Sendable {
  /// The checksum of the bytes added so far, or 0 if no bytes were added.
  public private(set) var value: UInt32 = 0

  private let avoidsISAL: Bool

  public init() { avoidsISAL = false }

  /// - Parameter avoidsISAL: A Boolean value that indicates whether to use zlib even if ISA-L is installed.
  package init(avoidsISAL: Bool) { self.avoidsISAL = avoidsISAL }

  /// Adds bytes to the checksum.
  ///
  /// - Complexity: O(*n*). A byte takes a fiftieth of a nanosecond with AVX-512, a tenth with narrower instructions,
  ///   and a nanosecond without carry-less multiplication: Spec/Benchmarks.md.
  public mutating func update(_ bytes: RawSpan) {
    value = unsafe bytes.withUnsafeBytes { buffer in
      // For a null pointer, zlib returns the initial value instead of `value`.
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

  /// The name and version of the library that computes checksums in this process.
  package static var library: String { library(isISAL: unsafe ISAL.checksum != nil) }

  package static func library(isISAL: Bool) -> String {
    isISAL ? "ISA-L (\(ISAL.libraryName))" : unsafe "zlib \(String(cString: zlibVersion()))"
  }
}

extension CRC32 {
  /// Returns the checksum of the concatenation of two byte sequences, computed from their checksums.
  ///
  /// - Parameters:
  ///   - first: The checksum of the first sequence.
  ///   - second: The checksum of the second sequence.
  ///   - byteCount: The size of the second sequence in bytes.
  /// - Complexity: O(log *n*) for `byteCount` *n*: zlib's `crc32_combine`.
  public static func combined(_ first: UInt32, _ second: UInt32, byteCount: Int64) -> UInt32 {
    UInt32(truncatingIfNeeded: crc32_combine(UInt(first), UInt(second), numericCast(byteCount)))
  }
}
