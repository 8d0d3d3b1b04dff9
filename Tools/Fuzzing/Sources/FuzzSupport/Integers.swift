extension [UInt8] {
  /// Returns the little-endian integer at an offset.
  public func integer<Integer: FixedWidthInteger>(at offset: Int, as type: Integer.Type = Integer.self) -> Integer {
    (0..<Integer.bitWidth / 8).reversed().reduce(0) { $0 << 8 | Integer(truncatingIfNeeded: self[offset + $1]) }
  }

  public mutating func put(_ value: some FixedWidthInteger, at offset: Int) {
    for index in 0..<value.bitWidth / 8 {
      self[offset + index] = UInt8(truncatingIfNeeded: value >> (8 * index))
    }
  }
}
