/// Where a key's four counters and four marks lie in a block: one in each word, sixteen to choose from.
struct UseCells {
  private let spread: UInt64

  /// The most that a counter tells.
  static let most: UInt64 = 15

  init(_ digest: UInt64) { spread = Self.mixed(digest) }

  /// How far to the left the key's four bits lie in a word.
  @inline(__always)
  private func shift(_ index: Int) -> UInt64 { (spread &>> UInt64(4 &* index) & 15) &* 4 }

  /// The key's counter or mark in one of the four words.
  @inline(__always)
  func value(_ index: Int, in word: UInt64) -> UInt64 { word &>> shift(index) & 15 }

  func block(of layout: UsesLayout) -> Int { Int(truncatingIfNeeded: spread >> 32) & (layout.blockCount - 1) }

  /// A word of counters after a use: the key's counts one more, if it holds the least of the four.
  ///
  /// A greater one has counted other keys too.
  @inline(__always)
  func counting(_ index: Int, in counters: UInt64, least: UInt64) -> UInt64 {
    least < Self.most && value(index, in: counters) == least ? counters &+ 1 &<< shift(index) : counters
  }

  /// A word of marks in which the key's is another one.
  @inline(__always)
  func marking(_ index: Int, in marks: UInt64, as mark: UInt64) -> UInt64 {
    marks & ~(15 &<< shift(index)) | mark &<< shift(index)
  }

  func count(in counters: SIMD4<UInt64>) -> Int { Int(values(in: counters).min()) }

  /// How many epochs ago the key was used last; nil if that is too long ago.
  func age(in marks: SIMD4<UInt64>, at epoch: UsesEpoch) -> UInt64? {
    let values = values(in: marks)
    guard values.min() > 0 else { return nil }
    return (0..<4).reduce(0) { max($0, epoch.age(ofMark: values[$1])) }
  }

  private func values(in words: SIMD4<UInt64>) -> SIMD4<UInt64> {
    SIMD4(value(0, in: words[0]), value(1, in: words[1]), value(2, in: words[2]), value(3, in: words[3]))
  }

  /// True for every 64th state of a block's counters, about.
  ///
  /// - Parameter sum: their words, added up.
  static func choosesOneOf64(_ sum: UInt64) -> Bool { mixed(sum) & 63 == 0 }

  /// Spreads what differs anywhere over all bits.
  private static func mixed(_ word: UInt64) -> UInt64 {
    let product = (word ^ word >> 32) &* 0x9E37_79B9_7F4A_7C15
    return product ^ product >> 29
  }
}
