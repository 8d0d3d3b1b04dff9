internal import CZlib

/// The CRC-32 of IEEE 802.3, as zlib computes it, over bytes that arrive in pieces.
public struct CRC32: Sendable {
  /// The checksum of the bytes so far; 0 for none.
  public private(set) var value: UInt32 = 0

  public init() {}

  /// - Complexity: O(*n*), about a nanosecond per byte or less.
  public mutating func update(_ bytes: RawSpan) {
    value = unsafe bytes.withUnsafeBytes { buffer in
      // crc32_z(…, NULL, …) answers the initial value, not `value`.
      guard let base = buffer.baseAddress, buffer.count > 0 else { return value }
      let start = unsafe base.assumingMemoryBound(to: UInt8.self)
      return UInt32(truncatingIfNeeded: unsafe crc32_z(UInt(value), start, buffer.count))
    }
  }

  public static func checksum(of bytes: RawSpan) -> UInt32 {
    var crc = CRC32()
    crc.update(bytes)
    return crc.value
  }
}
