internal import Posix

/// Retries until a deadline, after random sleeps that grow, so that callers do not stay in step.
struct Backoff {
  private let timeout: Duration
  private let longestSleep: Duration
  /// The deadline on the monotonic clock, set after the first failure because most calls do not fail. It is not a
  /// `ContinuousClock.Instant`, whose size is known only at run time, at a cost for each change.
  private var deadline: Duration?
  private var tries = 0

  /// The default of `longestSleep` is short for a person, and long compared with a change.
  init(timeout: Duration, longestSleep: Duration = .milliseconds(5)) {
    self.timeout = timeout
    self.longestSleep = longestSleep
  }

  /// Waits before the next try. Returns `false` if the deadline has passed.
  mutating func wait() -> Bool {
    let now = SystemClock.monotonic()
    let deadline = deadline ?? now + min(timeout, .seconds(1 << 32))
    self.deadline = deadline
    guard now < deadline else { return false }
    tries += 1
    // A change under a stripe takes a few microseconds, and a sleep takes at least sixty.
    let longest = min(20 << min(tries, 16), Int(longestSleep / .microseconds(1)))
    SystemClock.sleep(microseconds: .random(in: longest / 2...longest))
    return true
  }
}
