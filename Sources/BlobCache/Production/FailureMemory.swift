internal import BlobRecord
internal import MemoryCache

/// Keys that could not be produced a short while ago, and why.
final class FailureMemory: Sendable {
  private struct Failure: Sendable {
    let error: any Error
    let end: ContinuousClock.Instant
  }

  private let failures: MemoryCache<BlobKey, Failure>
  private let now: @Sendable () -> ContinuousClock.Instant

  /// - Parameter now: a clock that is never set: so a change of the time of day prolongs no failure.
  init(respondsToMemoryPressure: Bool, now: @escaping @Sendable () -> ContinuousClock.Instant) {
    // Some megabytes at the most; the oldest give way.
    var configuration = MemoryCacheConfiguration(limits: MemoryCacheLimits(count: 1 << 14))
    configuration.respondsToMemoryPressure = respondsToMemoryPressure
    failures = MemoryCache(configuration)
    self.now = now
  }

  /// Whether it gives memory back when the system runs short of it; for tests.
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
    // A sum with the longest of durations would not be an instant.
    failures.setValue(Failure(error: error, end: now().advanced(by: min(time, .seconds(1 << 32)))), forKey: key)
  }

  func forget(_ key: BlobKey) { failures.removeValue(forKey: key) }
}
