package import BlobRecord

/// When the next pass of a schedule is due, on a clock that only goes forward. It neither waits nor reads a clock.
package struct CollectionTimetable: Sendable {
  private let interval: Duration
  private let jitter: Duration
  private var generator: any RandomNumberGenerator & Sendable
  package private(set) var due: Duration

  package init(_ timing: BlobStore.CollectionTiming, at now: Duration, generator: any RandomNumberGenerator & Sendable)
  {
    interval = timing.effectiveInterval
    jitter = timing.effectiveJitter
    due = now + max(timing.firstDelay, .zero)
    self.generator = generator
  }

  /// Sets the next pass an interval after the end of this one.
  ///
  /// So a pass that takes longer than the interval is not followed at once.
  package mutating func passEnded(at now: Duration) {
    due = now + interval + delay()
  }

  /// Whether the due pass is skipped, because some process collected the directory lately.
  ///
  /// The next is then due an interval after that one. A last pass in the future does not count: the clock was wrong,
  /// then or now.
  package mutating func skipsPass(after lastPass: UnixTime?, time: UnixTime, at now: Duration) -> Bool {
    guard let lastPass, lastPass <= time else { return false }
    let (seconds, overflow) = time.seconds.subtractingReportingOverflow(lastPass.seconds)
    let age: Duration = .seconds(overflow ? .max : seconds)
    guard age < interval / 2 else { return false }
    due = now + interval - age + delay()
    return true
  }

  private mutating func delay() -> Duration {
    jitter * Double.random(in: 0...1, using: &generator)
  }
}
