import MemoryCache
import TestSupport
import Testing

/// W-TinyLFU with a cost limit: segments are shares of the cost, and an expensive entry must be worth its evictions.
@Suite struct CostWindowTests {
  private static let limit = 1 << 20
  private static let hotCount = 500
  private let clock = TestClock()

  private func cache(_ limits: MemoryCacheLimits) -> MemoryCache<Int, Int> {
    MemoryCache(.test(clock, limits: limits, policy: .wTinyLFU))
  }

  private static func sizes(_ size: Int) -> @Sendable (Int) -> Int { { _ in size } }

  /// The costs of a scan: equal ones, an entry of a quarter of the limit, growing ones, and all sizes.
  private static let scans: [(name: String, cost: @Sendable (Int) -> Int)] = [
    ("a 64th", sizes(limit / 64)), ("a 16th", sizes(limit / 16)), ("a quarter", sizes(limit / 4)),
    ("growing", { limit / 1024 + $0 * limit / 4 / 4000 }), ("mixed", { limit / (4 << ($0 % 9)) }),
    ("small", sizes(16)),
  ]

  /// Hot entries fill half of the limit, and are requested between the scan's entries.
  @Test(arguments: scans.indices, [MemoryCacheLimits(cost: limit), MemoryCacheLimits(count: 100_000, cost: limit)])
  func scanOfDearEntriesLeavesWhatIsAskedForOften(scan: Int, limits: MemoryCacheLimits) {
    let cache = MemoryCache<FixedKey, Int>(.test(clock, limits: limits, policy: .wTinyLFU))
    func isHit(_ number: Int) -> Bool {
      let key = FixedKey(number % Self.hotCount)
      if cache[key] != nil { return true }
      cache.setValue(number, forKey: key, cost: 1024)
      return false
    }
    for number in 0..<6 * Self.hotCount { _ = isHit(number) }
    var hits = 0
    for round in 0..<4000 {
      cache.setValue(round, forKey: FixedKey(10_000 + round), cost: Self.scans[scan].cost(round))
      hits += (round * 20..<round * 20 + 20).count { isHit($0) }
    }
    #expect(hits == 4000 * 20, "of \(4000 * 20), for \(Self.scans[scan].name)")
    #expect(cache.totalCost <= Self.limit)
    cache.checkInvariants()
  }

  /// The newest value remains even if it needs the room of nearly all others; the next value evicts it.
  @Test func oneEntryTakesTheRoomThatItNeedsUntilTheNext() {
    let cache = cache(MemoryCacheLimits(cost: 1000))
    for _ in 0..<5 { for key in 0..<100 where cache[key] == nil { cache.setValue(key, forKey: key, cost: 10) } }
    #expect(cache.setValue(0, forKey: 1000, cost: 900))
    #expect(cache.contains(1000))
    #expect((0..<100).count { cache.contains($0) } == 10)
    #expect(cache.setValue(0, forKey: 1001, cost: 10))
    #expect(!cache.contains(1000))
    #expect((0..<100).count { cache.contains($0) } == 10)
    cache.checkInvariants()
  }

  /// An expensive entry that is requested more often than the entries that it would evict is admitted.
  @Test func dearEntryThatIsAskedForStays() {
    let cache = cache(MemoryCacheLimits(cost: 1000))
    for key in 0..<100 { cache.setValue(key, forKey: key, cost: 10) }
    cache.setValue(0, forKey: 1000, cost: 300)
    for _ in 0..<5 { #expect(cache[1000] != nil) }
    for key in 2000..<2020 { cache.setValue(key, forKey: key, cost: 10) }
    #expect(cache.contains(1000))
    cache.checkInvariants()
  }

  /// Random operations: the policy's counters match the entries, and no limit is exceeded.
  @Test(arguments: [
    MemoryCacheLimits(cost: 500), MemoryCacheLimits(count: 40, cost: 500), MemoryCacheLimits(count: 40),
    MemoryCacheLimits(),
  ])
  func sharesAreCountedThroughEveryChange(limits: MemoryCacheLimits) {
    var generator = SeededGenerator(seed: 23)
    let cache = cache(limits)
    for round in 0..<6_000 {
      let key = Int.random(in: 0..<120, using: &generator)
      switch Int.random(in: 0..<40, using: &generator) {
      case 0..<18: _ = cache[key]
      case 18..<36:
        let cost = Int.random(in: 0..<80, using: &generator)
        #expect(cache.setValue(round, forKey: key, cost: cost))
        #expect(cache.peek(key) == round)
      case 36: cache.removeValue(forKey: key)
      case 37: cache.respond(to: .warning)
      case 38: cache.trim(toCost: Int.random(in: 0..<500, using: &generator))
      default:
        cache.limits.cost = limits.cost.map { $0 - round % 100 }
        if round % 10 == 0 { cache.removeAll() }
      }
      cache.checkInvariants()
    }
  }
}
