internal import Posix

/// Trying until a deadline: at once a few times, then after sleeps that grow and vary.
///
/// So callers that wait for one thing do not stay in step.
struct Backoff {
  private let timeout: Duration
  private let longestSleep: Duration
  /// Of the monotonic clock, since the first try failed: most do not, and need no clock. No `ContinuousClock.Instant`, whose
  /// size is known at run time only: each change of a record would ask for it.
  private var deadline: Duration?
  private var tries = 0

  /// - Parameters:
  ///   - timeout: from the first wait on.
  ///   - longestSleep: in the end; five milliseconds are little beside what a person notices, and much
  ///     beside what a change takes.
  init(timeout: Duration, longestSleep: Duration = .milliseconds(5)) {
    self.timeout = timeout
    self.longestSleep = longestSleep
  }

  /// Waits before the next try.
  ///
  /// - Returns: false if the deadline has passed.
  mutating func wait() -> Bool {
    let now = SystemClock.monotonic()
    let deadline = deadline ?? now + min(timeout, .seconds(1 << 32))
    self.deadline = deadline
    guard now < deadline else { return false }
    tries += 1
    // A change under a stripe takes some microseconds; a sleep takes at least sixty here.
    let longest = min(20 << min(tries, 16), Int(longestSleep / .microseconds(1)))
    SystemClock.sleep(microseconds: .random(in: longest / 2...longest))
    return true
  }
}
