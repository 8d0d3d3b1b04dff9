internal import BlobRecord
internal import MemoryCache

/// Keys that could not be produced a short while ago, and why.
final class FailureMemory: Sendable {
  private struct Failure: Sendable {
    let error: any Error
    let until: UnixTime
  }

  private let failures: MemoryCache<BlobKey, Failure>
  private let now: @Sendable () -> UnixTime

  init(now: @escaping @Sendable () -> UnixTime) {
    // Some megabytes at the most; the oldest give way.
    failures = MemoryCache(MemoryCacheConfiguration(limits: MemoryCacheLimits(count: 1 << 14)))
    self.now = now
  }

  func failure(of key: BlobKey) -> (any Error)? {
    guard let failure = failures.value(forKey: key) else { return nil }
    guard now() < failure.until else {
      forget(key)
      return nil
    }
    return failure.error
  }

  func note(_ error: any Error, of key: BlobKey, seconds: Int64) {
    failures.setValue(Failure(error: error, until: now().advanced(bySeconds: seconds)), forKey: key)
  }

  func forget(_ key: BlobKey) { failures.removeValue(forKey: key) }
}
