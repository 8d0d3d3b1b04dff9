import MemoryCache
import Testing

/// Keys with equal hashes, or with adjacent places in the index.
@Suite struct KeyTests {
  private let clock = TestClock()

  /// Hash functions: constant, equal in the half that the index uses, and consecutive.
  private static let hashes: [(name: String, hash: @Sendable (Int) -> Int)] = [
    ("one", { _ in 7 }), ("lower half", { $0 << 32 | 7 }), ("row", { $0 / 3 }), ("last places", { 31 - $0 % 2 }),
  ]

  @Test(arguments: hashes.indices, EvictionPolicy.allCases)
  func keysAreToldApartByTheirEquality(index: Int, policy: EvictionPolicy) {
    let keys = (0..<100).map { FixedKey($0, hash: Self.hashes[index].hash($0)) }
    let cache = MemoryCache<FixedKey, Int>(.test(clock, policy: policy))
    for key in keys { cache[key] = key.number }
    #expect(cache.count == keys.count)
    #expect(keys.allSatisfy { cache.peek($0) == $0.number })
    cache.checkInvariants()
    for key in keys where key.number % 3 == 0 {
      #expect(cache.removeValue(forKey: key) == key.number)
      cache.checkInvariants()
    }
    #expect(keys.allSatisfy { cache.peek($0) == ($0.number % 3 == 0 ? nil : $0.number) })
    for key in keys { cache[key] = -key.number }
    #expect(keys.allSatisfy { cache.peek($0) == -$0.number })
    cache.checkInvariants()
  }
}
