internal import PosixFiles

/// Trying until a deadline: at once a few times, then after sleeps that grow and vary, so that those who wait for the
/// same thing do not stay in step.
struct Backoff {
  private let deadline: ContinuousClock.Instant
  private let longestSleep: Int
  private var tries = 0

  /// - Parameter longestSleep: in the end; five milliseconds are little beside what a person notices, and much beside
  ///   what a change takes.
  init(timeout: Duration, longestSleep: Duration = .milliseconds(5)) {
    deadline = .now.advanced(by: min(timeout, .seconds(1 << 32)))
    self.longestSleep = Int(longestSleep / .microseconds(1))
  }

  /// Waits before the next try.
  ///
  /// - Returns: false if the deadline has passed.
  mutating func wait() -> Bool {
    guard ContinuousClock.now < deadline else { return false }
    tries += 1
    // A change under a stripe takes some microseconds; a sleep takes at least sixty here.
    let longest = min(20 << min(tries, 16), longestSleep)
    SystemClock.sleep(microseconds: .random(in: longest / 2...longest))
    return true
  }
}
