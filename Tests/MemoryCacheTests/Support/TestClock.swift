import Locks
import MemoryCache

/// A manual clock for a cache.
final class TestClock: Sendable {
  private let nanoseconds = Lock<Int64>(0)

  var now: CacheInstant {
    get { CacheInstant(nanoseconds: nanoseconds.withLock { $0 }) }
    set { nanoseconds.withLock { $0 = newValue.nanoseconds } }
  }

  func advance(by duration: Duration) {
    now = now.advanced(by: duration)
  }
}

extension MemoryCacheConfiguration {
  /// Returns a configuration with a test's clock, without a timer and without external pressure.
  static func test(
    _ clock: TestClock, limits: MemoryCacheLimits = MemoryCacheLimits(), policy: EvictionPolicy = .lru
  ) -> MemoryCacheConfiguration {
    var configuration = MemoryCacheConfiguration(limits: limits, policy: policy)
    configuration.now = { clock.now }
    configuration.trimInterval = nil
    configuration.respondsToMemoryPressure = false
    return configuration
  }
}
