internal import BlobRecord
internal import MemoryCache

/// The recent errors of producers, by key.
final class FailureMemory: Sendable {
  private struct Failure: Sendable {
    let error: any Error
    let end: ContinuousClock.Instant
  }

  private let failures: MemoryCache<BlobKey, Failure>
  private let now: @Sendable () -> ContinuousClock.Instant

  /// - Parameter now: A monotonic clock, so that a change of the time of day does not prolong an error.
  init(respondsToMemoryPressure: Bool, now: @escaping @Sendable () -> ContinuousClock.Instant) {
    // This many errors take some megabytes. The oldest errors are evicted.
    var configuration = MemoryCacheConfiguration(limits: MemoryCacheLimits(count: 1 << 14))
    configuration.respondsToMemoryPressure = respondsToMemoryPressure
    failures = MemoryCache(configuration)
    self.now = now
  }

  var respondsToMemoryPressure: Bool { failures.configuration.respondsToMemoryPressure }

  func failure(of key: BlobKey) -> (any Error)? {
    guard let failure = failures.value(forKey: key) else { return nil }
    guard now() < failure.end else {
      forget(key)
      return nil
    }
    return failure.error
  }

  func note(_ error: any Error, of key: BlobKey, for time: Duration) {
    // The time is clamped, because an instant cannot represent a sum with the longest durations.
    failures.setValue(Failure(error: error, end: now().advanced(by: min(time, .seconds(1 << 32)))), forKey: key)
  }

  func forget(_ key: BlobKey) { failures.removeValue(forKey: key) }
}
