internal import BlobRecord
internal import MemoryCache

/// Keys whose blobs here the engine has confirmed a short while ago.
final class Confirmations: Sendable {
  /// Some megabytes at the most; the oldest give way, and are asked for again.
  private static let most = 1 << 16

  private let times: MemoryCache<BlobKey, ContinuousClock.Instant>
  private let interval: Duration
  private let now: @Sendable () -> ContinuousClock.Instant

  /// - Parameter now: a clock that is never set.
  init(for interval: Duration, now: @escaping @Sendable () -> ContinuousClock.Instant) {
    var configuration = MemoryCacheConfiguration(limits: MemoryCacheLimits(count: Self.most))
    configuration.respondsToMemoryPressure = false
    times = MemoryCache(configuration)
    self.interval = interval
    self.now = now
  }

  func holds(_ key: BlobKey) -> Bool {
    times.value(forKey: key).map { $0.duration(to: now()) < interval } ?? false
  }

  func note(_ key: BlobKey) { times.setValue(now(), forKey: key) }
  func forget(_ key: BlobKey) { times.removeValue(forKey: key) }
  func forgetAll() { times.removeAll() }
}
