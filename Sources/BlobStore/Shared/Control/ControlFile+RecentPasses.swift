internal import BlobRecord

// A ring: the sums at the end of each of the last whole collections.
extension ControlFile {
  private static let wordCount = ControlLayout.passByteCount / 8

  /// Notes the sums as they are at the end of a whole collection, by the holder of the collector's lock.
  ///
  /// - Parameter statistics: with that collection in them.
  func notePass(_ statistics: BlobStore.CollectionStatistics, at now: UnixTime, milliseconds: Int64) {
    let traffic = traffic
    let words = [
      now.seconds, milliseconds, statistics.expired, statistics.evicted, statistics.bytesFreed, traffic.hits,
      traffic.misses, traffic.stores,
    ]
    let offset = Self.offset(ofPass: statistics.passes)
    for (index, word) in words.enumerated() { setWord(word, at: offset + index * 8) }
  }

  /// The last whole collections, the latest first, each with what has happened since the one before.
  ///
  /// The oldest one noted only tells where the next one begins, unless it was the first of all.
  func recentPasses(_ statistics: BlobStore.CollectionStatistics) -> [BlobStore.RecentPass] {
    guard isMapped, statistics.passes > 0 else { return [] }
    let last = statistics.passes
    let first = max(1, last - Int64(ControlLayout.passCount) + 2)
    return (first...last).reversed().compactMap { number in
      let words = words(ofPass: number)
      let before = number > 1 ? self.words(ofPass: number - 1) : [Int64](repeating: 0, count: Self.wordCount)
      // An older program notes no passes.
      guard words[0] > 0, number == 1 || before[0] > 0 else { return nil }
      func since(_ index: Int) -> Int64 { max(0, max(0, words[index]).saturatingSubtracting(max(0, before[index]))) }
      return BlobStore.RecentPass(
        time: UnixTime(seconds: words[0]), seconds: Double(max(0, words[1])) / 1000, expired: since(2),
        evicted: since(3), bytesFreed: since(4), hits: since(5), misses: since(6), stores: since(7))
    }
  }

  private func words(ofPass number: Int64) -> [Int64] {
    (0..<Self.wordCount).map { word(at: Self.offset(ofPass: number) + $0 * 8) }
  }

  private static func offset(ofPass number: Int64) -> Int {
    ControlLayout.passesNotedOffset + Int(number % Int64(ControlLayout.passCount)) * ControlLayout.passByteCount
  }
}
