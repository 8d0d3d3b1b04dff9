import Dispatch
import Locks
import MemoryCache
import Synchronization
import Testing

@Suite struct MemoryCacheTests {
  private let clock = TestClock()

  private func cache(
    _ limits: MemoryCacheLimits = MemoryCacheLimits(), policy: EvictionPolicy = .lru
  ) -> MemoryCache<String, Int> {
    MemoryCache(.test(clock, limits: limits, policy: policy))
  }

  // MARK: - Recency

  @Test func valueRefreshesAndPeekDoesNot() {
    let cache = cache(MemoryCacheLimits(count: 2))
    cache["a"] = 1
    cache["b"] = 2
    #expect(cache.peek("a") == 1)
    #expect(cache.contains("a"))
    #expect(cache.entry(forKey: "a")?.value == 1)
    cache["c"] = 3
    #expect(cache.peek("a") == nil)
    #expect(cache["b"] == 2)
    cache["d"] = 4
    #expect(cache.keys() == ["d", "b"])
  }

  @Test func subscriptWithNilRemoves() {
    let cache = cache()
    cache["a"] = 1
    cache["a"] = nil
    #expect(cache.isEmpty)
    #expect(cache.statistics.explicitRemovals == 1)
  }

  @Test func entriesComeInOrderAndNotMoreThanAsked() {
    let cache = cache()
    for key in ["a", "b", "c"] { cache[key] = 1 }
    #expect(cache.keys(most: 2) == ["c", "b"])
    #expect(cache.keys(leastRecentFirst: true, most: 2) == ["a", "b"])
    #expect(cache.keys(most: -1) == [])
  }

  /// With shards, all keys are ordered by the times of their last uses.
  @Test func shardsAreMergedByLastUse() {
    var configuration = MemoryCacheConfiguration.test(clock)
    configuration.shards = 8
    let cache = MemoryCache<String, Int>(configuration)
    let keys = (0..<100).map { "\($0)" }
    for key in keys {
      clock.advance(by: .seconds(1))
      cache[key] = 1
    }
    #expect(cache.keys(leastRecentFirst: true) == keys)
    #expect(cache.keys(most: 3) == ["99", "98", "97"])
    cache.checkInvariants()
  }

  // MARK: - Lifetimes

  @Test func absoluteLifetimeIsNotExtendedAndSlidingIs() {
    let cache = cache()
    cache.setValue(1, forKey: "absolute", lifetime: .absolute(.seconds(10)))
    cache.setValue(2, forKey: "sliding", lifetime: .sliding(.seconds(10)))
    clock.advance(by: .seconds(9))
    #expect(cache["absolute"] == 1)
    #expect(cache["sliding"] == 2)
    clock.advance(by: .seconds(1))
    #expect(cache["absolute"] == nil)
    #expect(cache["sliding"] == 2)
    clock.advance(by: .seconds(9))
    #expect(cache.peek("sliding") == 2)
    clock.advance(by: .seconds(1))
    #expect(!cache.contains("sliding"))
    #expect(cache.count == 1)
    #expect(cache.removeExpired() == 1)
    #expect(cache.isEmpty)
  }

  @Test func ageLimitCountsFromTheLastUse() {
    let cache = cache(MemoryCacheLimits(age: .seconds(10)))
    cache["a"] = 1
    clock.advance(by: .seconds(10))
    #expect(cache["a"] == 1)
    clock.advance(by: .seconds(10))
    #expect(cache["a"] == 1)
    clock.advance(by: .seconds(11))
    #expect(cache["a"] == nil)
    #expect(cache.statistics.expirations == 1)
  }

  @Test func configuredLifetimeIsTheDefault() {
    var configuration = MemoryCacheConfiguration.test(clock)
    configuration.lifetime = .absolute(.seconds(1))
    let cache = MemoryCache<String, Int>(configuration)
    cache["a"] = 1
    cache.setValue(1, forKey: "b", lifetime: .unlimited)
    clock.advance(by: .seconds(1))
    #expect(cache.keys() == ["b"])
  }

  // MARK: - Limits

  @Test(arguments: EvictionPolicy.allCases) func tooDearIsRefusedAndTheOldValueGoes(policy: EvictionPolicy) {
    let cache = cache(MemoryCacheLimits(cost: 100, maximumCostShare: 0.25), policy: policy)
    #expect(cache.setValue(1, forKey: "a", cost: 25))
    #expect(!cache.setValue(2, forKey: "a", cost: 26))
    #expect(cache["a"] == nil)
    #expect(cache.statistics.replacements == 1)
    #expect(cache.statistics.rejections == 1)
    cache.checkInvariants()
  }

  @Test(arguments: EvictionPolicy.allCases) func valueJustSetIsNotTheVictim(policy: EvictionPolicy) {
    let cache = cache(MemoryCacheLimits(count: 3, cost: 10), policy: policy)
    for round in 0..<200 {
      let key = "\(round % 7)"
      cache.setValue(round, forKey: key, cost: round % 11)
      #expect(cache[key] == round)
      cache.checkInvariants()
    }
  }

  @Test func limitsTakeEffectAtOnce() {
    let cache = cache()
    for key in 0..<10 { cache.setValue(key, forKey: "\(key)", cost: 2) }
    cache.limits = MemoryCacheLimits(count: 7)
    #expect(cache.keys(leastRecentFirst: true, most: 1) == ["3"])
    cache.limits.cost = 9
    #expect(cache.count == 4)
    #expect(cache.totalCost == 8)
    cache.limits = MemoryCacheLimits(count: 0)
    #expect(cache.isEmpty)
    #expect(!cache.setValue(1, forKey: "a"))
  }

  @Test func shardsKeepTheLimitsTogether() {
    var configuration = MemoryCacheConfiguration.test(clock, limits: MemoryCacheLimits(count: 1_000, cost: 5_000))
    configuration.shards = 8
    let cache = MemoryCache<Int, Int>(configuration)
    for key in 0..<10_000 { cache.setValue(key, forKey: key, cost: key % 10) }
    #expect(cache.count <= 1_000)
    #expect(cache.totalCost <= 5_000)
    #expect(cache.count > 900)
    cache.trim(toCount: 100)
    #expect((1...100).contains(cache.count))
    cache.trim(toCost: 50)
    #expect(cache.totalCost <= 50)
    cache.checkInvariants()
  }

  // MARK: - Removal

  @Test func removalGoesByTheValueThatWasSeen() {
    let cache = cache()
    cache["a"] = 1
    #expect(cache.removeValue(forKey: "a") { $0 == 2 } == nil)
    #expect(
      cache.removeValue(forKey: "a") { value in
        cache["a"] = 5  // replaces the value after the lookup
        return value == 1
      } == nil)
    #expect(cache["a"] == 5)
    #expect(cache.removeValue(forKey: "a") { $0 == 5 } == 5)
    #expect(cache.isEmpty)
  }

  @Test func valueThatTookThePlaceOfOneLookedAtStays() {
    let cache = cache()
    for key in ["a", "b"] { cache[key] = 1 }
    #expect(
      cache.removeAll { entry in
        if entry.key == "a" { cache["a"] = 5 }
        return true
      } == 1)
    #expect(cache.peek("a") == 5)
    #expect(cache.keys() == ["a"])
  }

  @Test func predicateSeesEachEntryAndMayThrow() {
    struct Stop: Error {}
    let cache = cache()
    for key in 0..<1_000 { cache["\(key)"] = key }
    #expect(cache.removeAll { $0.value % 2 == 0 } == 500)
    #expect(throws: Stop.self) {
      try cache.removeAll { _ in throw Stop() }
    }
    #expect(cache.count == 500)
    cache.checkInvariants()
  }

  @Test func pressureKeepsTheConfiguredShares() {
    var configuration = MemoryCacheConfiguration.test(clock)
    configuration.warningKeptShare = 0.25
    let cache = MemoryCache<Int, Int>(configuration)
    for key in 0..<100 { cache.setValue(key, forKey: key, cost: 1) }
    cache.setValue(1, forKey: 1_000, lifetime: .absolute(.seconds(1)))
    clock.advance(by: .seconds(1))
    cache.respond(to: .warning)
    #expect(cache.count == 25)
    #expect(cache.statistics.expirations == 1)
    cache.respond(to: .critical)
    #expect(cache.isEmpty)
    #expect(cache.statistics.evictions == 100)
  }

  // MARK: - Statistics

  @Test func statisticsSubtract() {
    let cache = cache()
    #expect(cache.statistics.hitRatio == nil)
    cache["a"] = 1
    let before = cache.statistics
    _ = cache["a"]
    _ = cache["b"]
    let difference = cache.statistics - before
    #expect(difference.hits == 1 && difference.misses == 1 && difference.insertions == 0)
    #expect(difference.hitRatio == 0.5)
  }

  // MARK: - Policies

  /// The purpose of W-TinyLFU: keys that are requested once do not evict keys that are requested often.
  @Test func scanDoesNotDriveOutWhatIsAskedForOften() {
    func hotKeysLeft(_ policy: EvictionPolicy) -> Int {
      let cache = MemoryCache<Int, Int>(.test(clock, limits: MemoryCacheLimits(count: 1_000), policy: policy))
      for key in 0..<1_000 { cache[key] = key }
      for _ in 0..<5 { for key in 0..<500 { _ = cache[key] } }
      for key in 10_000..<20_000 { cache[key] = key }
      cache.checkInvariants()
      return (0..<500).count { cache.contains($0) }
    }
    #expect(hotKeysLeft(.lru) == 0)
    #expect(hotKeysLeft(.wTinyLFU) > 450)
  }

  // MARK: - Timer

  @Test(.timeLimit(.minutes(30))) func automaticTrimFreesWhatExpires() async {
    await withCheckedContinuation { continuation in
      var configuration = MemoryCacheConfiguration()
      configuration.trimInterval = .milliseconds(1)
      configuration.respondsToMemoryPressure = false
      let isResumed = Atomic(false)
      let holder = Lock<MemoryCache<Int, Int>?>(nil)
      let cache = MemoryCache<Int, Int>(configuration) { removed in
        guard !isResumed.exchange(true, ordering: .relaxed) else { return }
        #expect(removed.cause == .expired)
        holder.withLock { $0 = nil }
        continuation.resume()
      }
      holder.withLock { $0 = cache }
      cache.setValue(1, forKey: 1, lifetime: .absolute(.milliseconds(1)))
    }
  }

  @Test func timerDoesNotKeepTheCache() {
    weak var weakCache: MemoryCache<Int, Int>?
    do {
      let cache = MemoryCache<Int, Int>(MemoryCacheConfiguration(limits: MemoryCacheLimits(age: .seconds(1))))
      cache[1] = 1
      weakCache = cache
    }
    #expect(weakCache == nil)
  }
}
