import Locks
import MemoryCache
import Synchronization
import TestSupport
import Testing

/// The lock is held for at most 256 entries at a time, regardless of the number to evict. So at most 256 entries are
/// evicted in the counters but not reported yet.
@Suite struct BoundedEvictionTests {
  private static let most = 256
  private static let count = 10_000

  /// Observes a cache from its listener, which runs outside the lock.
  private final class Watcher: Sendable {
    private struct State { var told = 0; var greatest = 0 }

    private let state = Lock(State())
    private let cache = Lock<MemoryCache<Int, Int>?>(nil)
    private let onFirst = Lock<(@Sendable (MemoryCache<Int, Int>) -> Void)?>(nil)

    func make(_ configuration: MemoryCacheConfiguration) -> MemoryCache<Int, Int> {
      let made = MemoryCache<Int, Int>(configuration) { [unowned self] _ in note() }
      cache.withLock { $0 = made }
      return made
    }

    private func note() {
      guard let cache = cache.withLock({ $0 }) else { return }
      let left = cache.statistics.evictions
      state.withLock { state in
        state.greatest = max(state.greatest, left - state.told)
        state.told += 1
      }
      onFirst.withLock { $0.take() }?(cache)
    }

    func atFirst(_ body: @escaping @Sendable (MemoryCache<Int, Int>) -> Void) { onFirst.withLock { $0 = body } }
    /// The maximum number of entries that were evicted but not reported.
    var greatest: Int { state.withLock { $0.greatest } }
    func forget() { cache.withLock { $0 = nil } }
  }

  private func filled(_ policy: EvictionPolicy, _ watcher: Watcher) -> MemoryCache<Int, Int> {
    let cache = watcher.make(.test(TestClock(), limits: MemoryCacheLimits(cost: Self.count), policy: policy))
    for key in 0..<Self.count { cache.setValue(key, forKey: key, cost: 1) }
    #expect(watcher.greatest == 0)
    return cache
  }

  @Test(arguments: EvictionPolicy.allCases) func loweredLimit(policy: EvictionPolicy) {
    let watcher = Watcher()
    let cache = filled(policy, watcher)
    cache.limits = MemoryCacheLimits(cost: 10)
    #expect(cache.totalCost == 10)
    #expect(watcher.greatest == Self.most)
    cache.checkInvariants()
    watcher.forget()
  }

  /// A value that is set while a limit is lowered evicts more than its own cost.
  @Test(arguments: EvictionPolicy.allCases) func valueSetWhileALimitComesDown(policy: EvictionPolicy) {
    let watcher = Watcher()
    let cache = filled(policy, watcher)
    watcher.atFirst { cache in
      #expect(cache.setValue(1, forKey: -1, cost: 1))
      #expect(cache.totalCost <= 10)
      #expect(cache.contains(-1))
    }
    cache.limits = MemoryCacheLimits(cost: 10)
    // Each of the two calls has at most one batch that is not reported yet.
    #expect(watcher.greatest <= 2 * Self.most)
    #expect(cache.totalCost == 10)
    cache.checkInvariants()
    watcher.forget()
  }

  /// One expensive value, new or replaced, evicts all others and remains.
  @Test(arguments: EvictionPolicy.allCases, [-1, 0, 5000]) func dearValue(policy: EvictionPolicy, key: Int) {
    let watcher = Watcher()
    let cache = filled(policy, watcher)
    #expect(cache.setValue(7, forKey: key, cost: Self.count))
    #expect(cache.keys() == [key])
    #expect(cache.peek(key) == 7)
    #expect(watcher.greatest == Self.most)
    cache.checkInvariants()
    watcher.forget()
  }

  /// The entry that is spared may be removed, alone or with all others, before the lock is taken again.
  @Test(arguments: EvictionPolicy.allCases, [true, false])
  func dearValueThatIsRemovedMeanwhile(policy: EvictionPolicy, removesAll: Bool) {
    let watcher = Watcher()
    let cache = filled(policy, watcher)
    watcher.atFirst { cache in
      if removesAll { cache.removeAll() } else { cache.removeValue(forKey: -1) }
      for key in 20_000..<20_010 { cache.setValue(key, forKey: key, cost: 1) }
    }
    cache.setValue(7, forKey: -1, cost: Self.count)
    #expect(!cache.contains(-1))
    #expect(cache.totalCost <= Self.count)
    cache.checkInvariants()
    watcher.forget()
  }
}
