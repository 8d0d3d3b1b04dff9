import MemoryCache
import Testing

/// The three lists of W-TinyLFU, as `keys()` tells them: protected, then the window, then what is on probation.
@Suite struct SegmentTests {
  /// A hundred entries, one of them in the window: by their number, by their cost, and by the nearer of both.
  static let limits = [
    MemoryCacheLimits(count: 100), MemoryCacheLimits(cost: 1000), MemoryCacheLimits(count: 100, cost: 10_000),
    MemoryCacheLimits(count: 10_000, cost: 1000),
  ]

  private func filled(_ limits: MemoryCacheLimits) -> MemoryCache<FixedKey, Int> {
    let cache = MemoryCache<FixedKey, Int>(.test(TestClock(), limits: limits, policy: .wTinyLFU))
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

  @Test(arguments: limits) func newEntryIsInTheWindowUntilTheNext(limits: MemoryCacheLimits) {
    #expect(numbers(filled(limits)) == (0..<100).reversed())
  }

  @Test(arguments: limits) func useProtectsWhatHasLeftTheWindow(limits: MemoryCacheLimits) {
    let cache = filled(limits)
    let others = (0..<99).reversed().filter { $0 != 5 && $0 != 7 }
    use([5, 99, 7, 99], in: cache)
    #expect(numbers(cache) == [7, 5, 99] + others)
    use([5], in: cache)
    #expect(numbers(cache) == [5, 7, 99] + others)
  }

  /// The least recent of them go back on probation.
  @Test(arguments: limits) func fourFifthsAreProtectedAtTheMost(limits: MemoryCacheLimits) {
    let cache = filled(limits)
    use(0..<99, in: cache)
    #expect(numbers(cache) == (20..<99).reversed() + [99] + (0..<20).reversed())
  }

  /// The sketch has forgotten by then, as it grew, that 0 was set; it knows that 99 was.
  @Test(arguments: limits, [1, 2]) func candidateThatIsNotAskedForMoreGivesWay(limits: MemoryCacheLimits, uses: Int) {
    let cache = filled(limits)
    for _ in 0..<uses { use(0..<99, in: cache) }
    set(100, in: cache)
    #expect(numbers(cache) == (20..<99).reversed() + [100] + (0..<20).reversed())
  }

  @Test(arguments: limits) func candidateThatIsAskedForMoreTakesTheLastPlace(limits: MemoryCacheLimits) {
    let cache = filled(limits)
    use(0..<100, in: cache)
    set(100, in: cache)
    #expect(numbers(cache) == (20..<99).reversed() + [100, 99] + (1..<20).reversed())
  }

  @Test(arguments: limits) func whatLeavesAListIsNoLongerCountedInIt(limits: MemoryCacheLimits) {
    let cache = filled(limits)
    use(0..<99, in: cache)
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
