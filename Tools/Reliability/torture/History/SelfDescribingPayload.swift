internal import Foundation

/// A payload that repeats its value and key in every block, so that a mix of two payloads is visible.
///
/// It consists of blocks of 16 bytes: the value, the key's number and the number of the block.
struct SelfDescribingPayload {
  static let blockByteCount = 16

  /// Returns the number of blocks of a value's payload: usually up to 4 KiB, in one of 32 cases up to 64 KiB.
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

  /// Returns the value of a payload.
  ///
  /// - Returns: The value, or `nil` if the bytes are not a complete payload of this key.
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
