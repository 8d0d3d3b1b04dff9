/// A count-min sketch that estimates how often keys were used recently.
///
/// Each key has four counters of four bits in one cache line (64 bytes), as in Caffeine's `FrequencySketch`. As in
/// the paper, all counters are halved when the number of counted uses reaches ten times the number of entries.
@usableFromInline
package struct FrequencySketch: Sendable {
  private static let blockSize = 8
  private static let sampleFactor = 10

  private var words: [UInt64] = []
  private var additions = 0
  private var sampleSize = 0

  @usableFromInline
  package init() {}

  /// Reserves a word, which is sixteen counters, for each entry. If the sketch grows, earlier counts are lost.
  @usableFromInline
  package mutating func reserve(_ entryCount: Int) {
    sampleSize = max(sampleSize, Self.sampleFactor * entryCount)
    guard entryCount > words.count else { return }
    var count = max(words.count, Self.blockSize)
    while count < entryCount { count *= 2 }
    words = Array(repeating: 0, count: count)
    additions = 0
  }

  /// Shrinks the sketch to fewer entries. A merged counter is the maximum of both, so no frequency decreases.
  package mutating func shrink(to entryCount: Int) {
    sampleSize = Self.sampleFactor * max(entryCount, 1)
    while words.count > Self.blockSize, words.count / 2 >= entryCount {
      let half = words.count / 2
      words = (0..<half).map { Self.greaterCounters(words[$0], words[$0 + half]) }
    }
    additions = min(additions, sampleSize / 2)
  }

  private static func greaterCounters(_ a: UInt64, _ b: UInt64) -> UInt64 {
    var counters: UInt64 = 0
    for shift in stride(from: UInt64(0), to: 64, by: 4) { counters |= max(a >> shift & 15, b >> shift & 15) << shift }
    return counters
  }

  private func counter(_ spread: UInt64, row: Int) -> (word: Int, shift: UInt64) {
    let block = Int(truncatingIfNeeded: spread >> 32) & (words.count / Self.blockSize - 1)
    let bits = spread >> UInt64(8 * row)
    return (block * Self.blockSize + 2 * row + Int(bits & 1), (bits >> 1 & 15) * 4)
  }

  private static func spread(_ hash: UInt32) -> UInt64 {
    let product = UInt64(hash) &* 0x9E37_79B9_7F4A_7C15
    return product ^ (product >> 29)
  }

  @usableFromInline
  package func frequency(of hash: UInt32) -> UInt64 {
    guard !words.isEmpty else { return 0 }
    let spread = Self.spread(hash)
    var least: UInt64 = 15
    for row in 0..<4 {
      let (word, shift) = counter(spread, row: row)
      least = min(least, words[word] >> shift & 15)
    }
    return least
  }

  @usableFromInline
  package mutating func count(_ hash: UInt32) {
    guard !words.isEmpty else { return }
    let spread = Self.spread(hash)
    var isCounted = false
    for row in 0..<4 {
      let (word, shift) = counter(spread, row: row)
      guard words[word] >> shift & 15 < 15 else { continue }
      words[word] += 1 << shift
      isCounted = true
    }
    guard isCounted else { return }
    additions += 1
    if additions >= sampleSize { halve() }
  }

  var byteCount: Int { words.count * 8 }

  package var counters: [UInt64] { words.flatMap { word in (0..<16).map { word >> (4 * $0) & 15 } } }

  private mutating func halve() {
    for index in words.indices { words[index] = words[index] >> 1 & 0x7777_7777_7777_7777 }
    additions /= 2
  }
}
