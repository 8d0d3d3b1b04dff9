/// Which of the 16,384 parts of a cluster's keys a key is in.
enum ClusterSlot {
  static let count = 16384

  /// - Complexity: O(*n*) for *n* bytes of key.
  static func of(_ key: String) -> Int { Int(crc16(tag(of: key)) % UInt16(count)) }

  /// What the slot is made of: the part between the first braces if there is one, so that keys can share a slot.
  private static func tag(of key: String) -> Substring.UTF8View {
    let bytes = key.utf8
    guard let open = bytes.firstIndex(of: UInt8(ascii: "{")) else { return bytes[...] }
    let start = bytes.index(after: open)
    guard let end = bytes[start...].firstIndex(of: UInt8(ascii: "}")), end > start else { return bytes[...] }
    return bytes[start..<end]
  }

  /// CRC-16 of XMODEM: the polynomial 0x1021, highest bit first.
  private static func crc16(_ bytes: Substring.UTF8View) -> UInt16 {
    bytes.reduce(0) { sum, byte in
      var sum = sum ^ (UInt16(byte) << 8)
      for _ in 0..<8 { sum = sum & 0x8000 == 0 ? sum << 1 : sum << 1 ^ 0x1021 }
      return sum
    }
  }
}
