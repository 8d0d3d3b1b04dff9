import MemoryCache
import Testing

/// The three segments of W-TinyLFU in the order of `keys()`: protected, window, and probation.
@Suite struct SegmentTests {
  /// Limits for a hundred entries: by count, by cost, and by the stricter of both.
  struct Shares: Sendable {
    let limits: MemoryCacheLimits
    /// The size of the window.
    let windowCount: Int

    /// The number of the other entries, and the maximum of protected ones.
    var mainCount: Int { 100 - windowCount }
    var protectedCount: Int { mainCount * 4 / 5 }

    /// The protected keys after all entries outside the window were used in order.
    var protected: [Int] { (mainCount - protectedCount..<mainCount).reversed() }
    var onProbation: [Int] { (0..<mainCount - protectedCount).reversed() }
  }

  static let shares = [
    Shares(limits: MemoryCacheLimits(count: 100), windowCount: 1),
    Shares(limits: MemoryCacheLimits(cost: 1000), windowCount: 5),
    Shares(limits: MemoryCacheLimits(count: 100, cost: 10_000), windowCount: 1),
    Shares(limits: MemoryCacheLimits(count: 10_000, cost: 1000), windowCount: 5),
  ]

  private func filled(_ shares: Shares) -> MemoryCache<FixedKey, Int> {
    let cache = MemoryCache<FixedKey, Int>(.test(TestClock(), limits: shares.limits, policy: .wTinyLFU))
    for number in 0..<100 { set(number, in: cache) }
    return cache
  }

  private func set(_ number: Int, in cache: MemoryCache<FixedKey, Int>) {
    #expect(cache.setValue(number, forKey: FixedKey(number), cost: 10))
    cache.checkInvariants()
  }

  private func use(_ numbers: some Sequence<Int>, in cache: MemoryCache<FixedKey, Int>) {
    for number in numbers { #expect(cache[FixedKey(number)] == number) }
    cache.checkInvariants()
  }

  private func numbers(_ cache: MemoryCache<FixedKey, Int>) -> [Int] { cache.keys().map(\.number) }

  @Test(arguments: shares) func newEntryIsInTheWindow(shares: Shares) {
    #expect(numbers(filled(shares)) == (0..<100).reversed())
  }

  @Test(arguments: shares) func useProtectsWhatHasLeftTheWindow(shares: Shares) {
    let cache = filled(shares)
    let others = (0..<100).reversed().filter { $0 != 5 && $0 != 7 }
    use([5, 99, 7, 99], in: cache)
    #expect(numbers(cache) == [7, 5] + others)
    use([5], in: cache)
    #expect(numbers(cache) == [5, 7] + others)
  }

  /// The least recently used protected entries return to probation.
  @Test(arguments: shares) func fourFifthsAreProtectedAtTheMost(shares: Shares) {
    let cache = filled(shares)
    use(0..<shares.mainCount, in: cache)
    #expect(numbers(cache) == shares.protected + (shares.mainCount..<100).reversed() + shares.onProbation)
  }

  /// The sketch lost the use of key 0 when it grew, but has counted the last keys.
  @Test(arguments: shares, [1, 2]) func candidateThatIsNotAskedForMoreGivesWay(shares: Shares, uses: Int) {
    let cache = filled(shares)
    for _ in 0..<uses { use(0..<shares.mainCount, in: cache) }
    set(100, in: cache)
    #expect(numbers(cache) == shares.protected + (shares.mainCount + 1...100).reversed() + shares.onProbation)
  }

  @Test(arguments: shares) func candidateThatIsAskedForMoreTakesTheLastPlace(shares: Shares) {
    let cache = filled(shares)
    use(0..<100, in: cache)
    set(100, in: cache)
    #expect(numbers(cache) == shares.protected + (shares.mainCount...100).reversed() + shares.onProbation.dropLast())
  }

  @Test(arguments: shares) func whatLeavesAListIsNoLongerCountedInIt(shares: Shares) {
    let cache = filled(shares)
    use(0..<shares.mainCount, in: cache)
    for number in [99, 50, 0] {
      #expect(cache.removeValue(forKey: FixedKey(number)) == number)
      cache.checkInvariants()
    }
    for number in [30, 10] {
      cache.setValue(number, forKey: FixedKey(number), cost: 3)
      cache.checkInvariants()
    }
    cache.removeAll()
    cache.checkInvariants()
    for number in 0..<100 { set(number, in: cache) }
    #expect(numbers(cache) == (0..<100).reversed())
  }
}
