import Locks
import MemoryCache

/// A cache's clock that stands still until it is told to move.
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
  /// A configuration on a test's clock, without a timer and without pressure from outside.
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
