import MemoryCache
import ReplacementPolicies

/// The product as a replacement policy. Its hit ratios must equal those of its documented algorithm.
struct MemoryCachePolicy: ReplacementPolicy {
  private let cache: MemoryCache<Int, Int>

  init(capacity: Int, entryCount: Int) { self.init(capacity: capacity, policy: .lru) }

  init(capacity: Int, policy: EvictionPolicy) {
    cache = MemoryCache(MemoryCacheConfiguration(limits: MemoryCacheLimits(count: capacity), policy: policy))
  }

  mutating func access(_ key: Int, weight: Int) -> Bool {
    if cache.value(forKey: key) != nil { return true }
    cache.setValue(key, forKey: key)
    return false
  }
}
