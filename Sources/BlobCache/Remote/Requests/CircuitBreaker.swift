internal import Locks

/// A circuit breaker, which skips an engine that fails, and admits one trial request after a pause.
///
/// It has the states closed, open and half-open of Nygard's "Release It!".
final class CircuitBreaker: Sendable {
  struct Ticket: Sendable {
    var isTrial = false
  }

  private struct State {
    var failuresInRow = 0
    var requests = 0
    var failures = 0
    var windowStart: ContinuousClock.Instant
    var openUntil: ContinuousClock.Instant?
    /// The last pause, or zero if the breaker is closed.
    var lastPause = Duration.zero
    var isTried = false

    func pause(at now: ContinuousClock.Instant, duringTrial: Duration) -> Duration? {
      guard let openUntil, now < openUntil || isTried else { return nil }
      return now < openUntil ? now.duration(to: openUntil) : duringTrial
    }

    mutating func count(at now: ContinuousClock.Instant) {
      if now - windowStart > .seconds(10) { (requests, failures, windowStart) = (0, 0, now) }
      requests += 1
    }
  }

  /// The minimum number of requests in a window for which the share of failures counts.
  private static let fewestRequests = 20

  private let settings: BreakerSettings
  private let now: @Sendable () -> ContinuousClock.Instant
  private let jitter: @Sendable () -> Double
  private let state: Lock<State>

  init(
    _ settings: BreakerSettings, now: @escaping @Sendable () -> ContinuousClock.Instant,
    jitter: @escaping @Sendable () -> Double
  ) {
    self.settings = settings
    self.now = now
    self.jitter = jitter
    state = Lock(State(windowStart: now()))
  }

  var condition: RemoteStatus.Condition {
    let now = now()
    return state.withLock { state in
      guard let end = state.openUntil else { return .inUse }
      return now < end && !state.isTried ? .leftAlone : .tried
    }
  }

  /// The remaining time for which no request is admitted, or `nil` if one would be admitted.
  var pause: Duration? {
    let now = now()
    return state.withLock { $0.pause(at: now, duringTrial: settings.pause) }
  }

  /// Admits a request, which must end with `succeed`, `fail` or `leave`, or returns `nil` if the breaker is open.
  ///
  /// - Complexity: O(1), without a system call except for the clock.
  func admit() -> Ticket? {
    let now = now()
    return state.withLock { state in
      guard state.pause(at: now, duringTrial: settings.pause) == nil else { return nil }
      let ticket = Ticket(isTrial: state.openUntil != nil)
      if ticket.isTrial { state.isTried = true }
      return ticket
    }
  }

  /// Records a success, and returns whether the breaker has closed.
  @discardableResult
  func succeed() -> Bool {
    let now = now()
    return state.withLock { state in
      state.count(at: now)
      let wasOpen = state.openUntil != nil
      (state.failuresInRow, state.openUntil, state.lastPause, state.isTried) = (0, nil, .zero, false)
      return wasOpen
    }
  }

  func leave(_ ticket: Ticket) {
    if ticket.isTrial { state.withLock { $0.isTried = false } }
  }

  private func longerPause(_ state: State) -> Duration {
    min(max(state.lastPause * 2, settings.pause), settings.longestPause)
  }

  /// Records a failure, and returns whether the breaker has opened.
  @discardableResult
  func fail(_ kind: RemoteError.Kind, _ ticket: Ticket = Ticket()) -> Bool {
    let now = now()
    return state.withLock { state in
      // A failure of a request that was admitted before the breaker opened contains no new information.
      guard ticket.isTrial || state.openUntil == nil else { return false }
      if ticket.isTrial { state.isTried = false }
      state.count(at: now)
      state.failuresInRow += 1
      state.failures += 1
      let pause: Duration
      switch kind {
      case .refused: pause = settings.longestPause
      case .throttled(let asked):
        // A server may repeatedly ask for a pause of zero.
        let longer = longerPause(state)
        pause = min(max(asked ?? .zero, longer * jitter()), settings.longestPause)
        state.lastPause = longer
      default:
        let isTooMuch =
          state.failuresInRow >= settings.failures
          || state.requests >= Self.fewestRequests && state.failures * 2 >= state.requests
        guard ticket.isTrial || isTooMuch else { return false }
        let longer = longerPause(state)
        pause = longer * jitter()
        state.lastPause = longer
      }
      let wasOpen = state.openUntil != nil
      state.openUntil = max(state.openUntil ?? now, now.advanced(by: pause))
      return !wasOpen
    }
  }
}
