internal import PosixFiles

/// Trying until a deadline: at once a few times, then after sleeps that grow and vary, so that those who wait for the
/// same thing do not stay in step.
struct Backoff {
  private let deadline: ContinuousClock.Instant
  private var tries = 0

  init(timeout: Duration) {
    deadline = .now + timeout
  }

  /// Waits before the next try.
  ///
  /// - Returns: false if the deadline has passed.
  mutating func wait() -> Bool {
    guard ContinuousClock.now < deadline else { return false }
    tries += 1
    // A change under a stripe takes some microseconds; a sleep takes at least sixty here.
    let longest = min(20 << min(tries, 8), 5_000)
    SystemClock.sleep(microseconds: .random(in: longest / 2...longest))
    return true
  }
}
