import MemoryCache
import Testing

/// No argument crashes the process.
@Suite struct ExtremeArgumentTests {
  private let clock = TestClock()

  static let durations: [Duration] = [
    .zero, .nanoseconds(-1), .nanoseconds(1), .seconds(-1), .seconds(Int64.max), .seconds(Int64.min),
    .seconds(Int64.max) + .seconds(Int64.max), Duration(secondsComponent: .min, attosecondsComponent: -1),
  ]

  @Test(arguments: durations, EvictionPolicy.allCases)
  func durationsOfAllSizes(duration: Duration, policy: EvictionPolicy) {
    let isOver = duration <= .zero
    for start in [Int64.min, -1, 0, 1 << 40, Int64.max] {
      clock.now = CacheInstant(nanoseconds: start)
      let cache = MemoryCache<Int, Int>(
        .test(clock, limits: MemoryCacheLimits(age: duration), policy: policy))
      #expect(cache.setValue(1, forKey: 1, lifetime: .absolute(duration)) == !isOver)
      #expect(cache.setValue(1, forKey: 2, lifetime: .sliding(duration)) == !isOver)
      #expect(
        cache.setValue(1, forKey: 3, lifetime: .until(clock.now.advanced(by: duration))) != isOver || start == .max)
      #expect((cache[1] == nil) == isOver)
      #expect((cache[2] == nil) == isOver)
      cache.trim(toAge: duration)
      cache.limits.age = duration
      cache.checkInvariants()
    }
  }

  static let numbers = [Int.min, -1, 0, 1, 3, .max - 1, .max]

  @Test(arguments: numbers, EvictionPolicy.allCases) func numbersOfAllSizes(number: Int, policy: EvictionPolicy) {
    for share in [-1, 0, 0.5, 1, 2, .nan, .infinity, -.infinity] {
      for limits in [
        MemoryCacheLimits(), MemoryCacheLimits(count: number), MemoryCacheLimits(cost: number),
        MemoryCacheLimits(count: number, cost: number, maximumCostShare: share),
      ] {
        for shards in [number, 1] {
          var configuration = MemoryCacheConfiguration.test(clock, limits: limits, policy: policy)
          configuration.shards = shards
          configuration.warningKeptShare = share
          let cache = MemoryCache<Int, Int>(configuration)
          for key in 0..<5 { cache.setValue(key, forKey: key, cost: key % 2 == 0 ? number : .max) }
          #expect(limits.count.map { cache.count <= max($0, 0) } ?? true)
          #expect(limits.cost.map { cache.totalCost <= max($0, 0) } ?? true)
          cache.respond(to: .warning)
          cache.trim(toCount: number)
          cache.trim(toCost: number)
          _ = cache.entries(most: number)
          cache.limits = MemoryCacheLimits(count: number, cost: number)
          cache.checkInvariants()
        }
      }
    }
  }

  @Test func costsBeyondSixtyFourBitsAddUp() {
    let cache = MemoryCache<Int, Int>(.test(clock))
    for key in 0..<5 { cache.setValue(key, forKey: key, cost: .max) }
    #expect(cache.totalCost == .max)
    for key in 0..<4 { cache.removeValue(forKey: key) }
    #expect(cache.totalCost == .max)
    cache.removeValue(forKey: 4)
    #expect(cache.totalCost == 0)
    cache.setValue(1, forKey: 1, cost: -5)
    #expect(cache.entry(forKey: 1)?.cost == 0)
  }

  @Test func intervalsOfAllSizes() {
    for interval in Self.durations {
      var configuration = MemoryCacheConfiguration(limits: MemoryCacheLimits(age: .seconds(1)))
      configuration.trimInterval = interval
      configuration.respondsToMemoryPressure = false
      let cache = MemoryCache<Int, Int>(configuration)
      cache[1] = 1
    }
  }

  @Test func manyKeysComeAndGo() {
    let cache = MemoryCache<Int, Int>(.test(clock, limits: MemoryCacheLimits(count: 5_000)))
    for key in 0..<50_000 {
      cache[key] = key
      if key % 3 == 0 { cache[key / 2] = nil }
    }
    cache.checkInvariants()
    #expect((45_001..<50_000).allSatisfy { $0 / 2 == $0 || cache.peek($0) == $0 })
  }
}
