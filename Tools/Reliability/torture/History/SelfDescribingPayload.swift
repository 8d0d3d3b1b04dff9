internal import Foundation

/// A payload that says all over which value of which key it is, so that a mix of two shows in its bytes.
///
/// It is a number of blocks of 16 bytes: the value, the key's number and the block's own number.
struct SelfDescribingPayload {
  static let blockByteCount = 16

  /// How many blocks the payload of a value has: mostly up to 4 KiB, one in 32 up to 64 KiB.
  static func blockCount(of value: UInt64, isFixed: Bool) -> Int {
    if isFixed { return 4096 }
    let mixed = (value &* 0x9E37_79B9_7F4A_7C15) >> 32
    return Int(mixed % 32 == 0 ? mixed / 32 % 4096 : mixed / 32 % 256) + 1
  }

  static func bytes(of value: UInt64, key: Int, isFixed: Bool) -> Data {
    let count = blockCount(of: value, isFixed: isFixed)
    var data = Data(count: count * blockByteCount)
    data.withUnsafeMutableBytes { buffer in
      for block in 0..<count {
        buffer.storeBytes(of: value.littleEndian, toByteOffset: block * blockByteCount, as: UInt64.self)
        buffer.storeBytes(
          of: (UInt64(block) << 32 | UInt64(key)).littleEndian, toByteOffset: block * blockByteCount + 8,
          as: UInt64.self)
      }
    }
    return data
  }

  /// The value that a payload says it is.
  ///
  /// - Returns: nil if it is no whole payload of this key.
  static func value(of payload: Data, key: Int, isFixed: Bool) -> UInt64? {
    payload.withUnsafeBytes { buffer -> UInt64? in
      guard buffer.count >= blockByteCount else { return nil }
      let value = UInt64(littleEndian: buffer.loadUnaligned(as: UInt64.self))
      let count = blockCount(of: value, isFixed: isFixed)
      guard buffer.count == count * blockByteCount else { return nil }
      for block in 0..<count {
        let offset = block * blockByteCount
        guard UInt64(littleEndian: buffer.loadUnaligned(fromByteOffset: offset, as: UInt64.self)) == value,
          UInt64(littleEndian: buffer.loadUnaligned(fromByteOffset: offset + 8, as: UInt64.self))
            == UInt64(block) << 32 | UInt64(key)
        else { return nil }
      }
      return value
    }
  }
}
