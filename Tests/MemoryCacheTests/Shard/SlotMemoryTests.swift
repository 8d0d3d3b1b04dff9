import MemoryCache
import Testing

/// Memory of unused slots is released without losing entries.
@Suite struct SlotMemoryTests {
  private static let count = 10_000
  private let clock = TestClock()

  private func filled(_ policy: EvictionPolicy, shards: Int = 1) -> MemoryCache<Int, Int> {
    var configuration = MemoryCacheConfiguration.test(clock, policy: policy)
    configuration.shards = shards
    let cache = MemoryCache<Int, Int>(configuration)
    for key in 0..<Self.count { cache.setValue(key, forKey: key, cost: 1, lifetime: .absolute(.seconds(100))) }
    return cache
  }

  enum Relief: CaseIterable { case warning, criticalThatKeepsSome, lowerLimit, countTrim, costTrim, expiry }

  @Test(arguments: Relief.allCases, EvictionPolicy.allCases)
  func memoryOfWhatLeavesIsGivenBack(by relief: Relief, policy: EvictionPolicy) {
    for shards in [1, 4] {
      let cache = filled(policy, shards: shards)
      let before = cache.slotByteCount
      var left = cache.keys()
      switch relief {
      case .warning: cache.respond(to: .warning)
      case .criticalThatKeepsSome: cache.respond(to: .warning); cache.respond(to: .warning)
      case .lowerLimit: cache.limits = MemoryCacheLimits(count: Self.count / 2)
      case .countTrim: cache.trim(toCount: Self.count / 2)
      case .costTrim: cache.trim(toCost: Self.count / 2)
      case .expiry:
        clock.advance(by: .seconds(50))
        for key in 0..<Self.count / 2 { cache.setValue(key, forKey: key, cost: 1) }
        clock.advance(by: .seconds(50))
        cache.trim()
      }
      #expect(cache.count <= Self.count / 2 && cache.count > 0)
      #expect(cache.slotByteCount <= before * 2 / 3)
      cache.checkInvariants()
      left.removeAll { !cache.contains($0) }
      #expect(left.allSatisfy { cache[$0] == $0 })
      #expect(left.count == cache.count)
      // The cache grows again as before.
      for key in 0..<2 * Self.count { cache.setValue(key, forKey: key, cost: 1) }
      #expect(cache.count <= 2 * Self.count)
      cache.checkInvariants()
    }
  }

  @Test(arguments: EvictionPolicy.allCases) func allOfItIsGivenBackWhenNothingIsKept(policy: EvictionPolicy) {
    let empty = MemoryCache<Int, Int>(.test(clock, policy: policy)).slotByteCount
    let cache = filled(policy)
    cache.respond(to: .critical)
    #expect(cache.slotByteCount == empty)
    let other = filled(policy)
    other.removeAll()
    #expect(other.slotByteCount == empty)
  }

  /// Memory depends on the entries that are present at one time, not on the total number of insertions.
  @Test(arguments: EvictionPolicy.allCases) func slotsAreUsedAgain(policy: EvictionPolicy) {
    let cache = MemoryCache<Int, Int>(.test(clock, limits: MemoryCacheLimits(count: 100), policy: policy))
    for key in 0..<200 { cache[key] = key }
    let before = cache.slotByteCount
    for key in 200..<5_000 { cache[key] = key }
    #expect(cache.slotByteCount == before)
    cache.checkInvariants()
  }

  /// Each entry has its own lifetime, whether its slot was used before, or moved to other memory.
  @Test(arguments: EvictionPolicy.allCases) func lifetimesMoveWithTheirEntries(policy: EvictionPolicy) {
    let cache = filled(policy)
    for key in stride(from: 0, to: Self.count, by: 2) { cache.setValue(key, forKey: key, cost: 1) }
    for key in 0..<Self.count { _ = cache[key] }
    cache.respond(to: .warning)
    let unlimited = cache.keys().filter { $0.isMultiple(of: 2) }
    #expect(unlimited.count < cache.count)
    for key in stride(from: 1, to: Self.count, by: 4) { cache.removeValue(forKey: key) }
    let others = Self.count..<2 * Self.count
    for key in others { cache.setValue(key, forKey: key, cost: 1) }
    clock.advance(by: .seconds(100))
    #expect(Set(cache.keys()) == Set(unlimited).union(others))
  }

  /// A cache whose entries do not expire has no memory for lifetimes, and a slot is as small as its content.
  @Test func lifetimesTakeMemoryOnlyWhereThereAreSome() {
    let cache = MemoryCache<Int, Int>(.test(clock))
    for key in 0..<100 { cache[key] = key }
    let before = cache.slotByteCount
    cache.setValue(0, forKey: 0, lifetime: .sliding(.seconds(1)))
    #expect(cache.slotByteCount == before + 128 * 16)
    clock.advance(by: .seconds(1))
    #expect(cache.keys().count == 99)
    #expect(cache.entry(forKey: 1)?.deadline == nil)
  }

  @Test func orderStays() {
    let cache = filled(.lru)
    for key in stride(from: 0, to: Self.count, by: 7) { _ = cache[key] }
    let before = cache.keys()
    cache.respond(to: .warning)
    #expect(cache.keys() == Array(before.prefix(Self.count / 2)))
  }

  /// The sketch's counts survive when entries move to other slots.
  @Test func whatIsAskedForOftenIsStillKnown() {
    let cache = MemoryCache<Int, Int>(
      .test(clock, limits: MemoryCacheLimits(count: 4_000), policy: .wTinyLFU))
    for key in 0..<4_000 { cache[key] = key }
    for _ in 0..<6 { for key in 0..<500 { _ = cache[key] } }
    cache.respond(to: .warning)
    cache.limits = MemoryCacheLimits(count: 1_000)
    for key in 10_000..<12_000 { cache[key] = key }
    #expect((0..<500).count { cache.contains($0) } > 450)
  }

  /// A walk over the slots visits every entry, even an entry that moves to slots that were already visited.
  @Test func walkMissesNothingThatIsMoved() {
    let cache = filled(.lru)
    // The first slots contain the least recently used entries, which are evicted.
    for key in 0..<Self.count / 4 { _ = cache[key] }
    var calls = 0
    let removed = cache.removeAll { entry in
      calls += 1
      if calls == 3_000 { cache.respond(to: .warning) }
      return entry.key >= Self.count / 4
    }
    #expect(removed > 0)
    #expect(cache.entries().allSatisfy { $0.key < Self.count / 4 })
    cache.checkInvariants()
  }
}
