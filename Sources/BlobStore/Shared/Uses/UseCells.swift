/// Where a key's four counters and four marks lie in a block: one in each word, sixteen to choose from.
struct UseCells {
  private let spread: UInt64
  private let shifts: SIMD4<UInt64>

  init(_ digest: UInt64) {
    spread = Self.mixed(digest)
    shifts = SIMD4(spread, spread >> 4, spread >> 8, spread >> 12) & 15 &* 4
  }

  func block(of layout: UsesLayout) -> Int { Int(truncatingIfNeeded: spread >> 32) & (layout.blockCount - 1) }

  /// The counters after a use: those that hold the least count more.
  ///
  /// A greater one has counted other keys too.
  func counting(in counters: SIMD4<UInt64>) -> SIMD4<UInt64> {
    let values = values(in: counters)
    let least = values.min()
    guard least < 15 else { return counters }
    return counters.replacing(with: counters &+ (SIMD4(repeating: 1) &<< shifts), where: values .== least)
  }

  func marking(_ marks: SIMD4<UInt64>, as mark: UInt64) -> SIMD4<UInt64> {
    marks & ~(SIMD4(repeating: 15) &<< shifts) | (SIMD4(repeating: mark) &<< shifts)
  }

  func count(in counters: SIMD4<UInt64>) -> Int { Int(values(in: counters).min()) }

  /// How many epochs ago the key was used last; nil if that is too long ago.
  func age(in marks: SIMD4<UInt64>, at epoch: UsesEpoch) -> UInt64? {
    let values = values(in: marks)
    guard values.min() > 0 else { return nil }
    return (0..<4).reduce(0) { max($0, epoch.age(ofMark: values[$1])) }
  }

  private func values(in words: SIMD4<UInt64>) -> SIMD4<UInt64> { words &>> shifts & 15 }

  /// True for every 64th state of counters, about.
  static func choosesOneOf64(_ counters: SIMD4<UInt64>) -> Bool { mixed(counters.wrappedSum()) & 63 == 0 }

  /// Spreads what differs anywhere over all bits.
  private static func mixed(_ word: UInt64) -> UInt64 {
    let product = (word ^ word >> 32) &* 0x9E37_79B9_7F4A_7C15
    return product ^ product >> 29
  }
}
