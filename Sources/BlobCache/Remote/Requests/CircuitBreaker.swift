internal import Locks

/// Leaves an engine alone that fails, and lets one request try it after a pause.
///
/// It is the circuit breaker of Nygard's "Release It!": closed, open, half open.
final class CircuitBreaker: Sendable {
  /// A request that is admitted.
  struct Ticket: Sendable {
    /// Whether it tries an engine that has failed.
    var isTrial = false
  }

  private struct State {
    var failuresInRow = 0
    /// Requests and failures since `windowStart`.
    var requests = 0
    var failures = 0
    var windowStart: ContinuousClock.Instant
    /// nil while it is closed.
    var openUntil: ContinuousClock.Instant?
    /// How long it was open last; zero while it is closed.
    var lastPause = Duration.zero
    /// Whether a trial is under way.
    var isTried = false

    func pause(at now: ContinuousClock.Instant, duringTrial: Duration) -> Duration? {
      guard let openUntil, now < openUntil || isTried else { return nil }
      return now < openUntil ? now.duration(to: openUntil) : duringTrial
    }

    /// Counts a request in the window of time that it falls into.
    mutating func count(at now: ContinuousClock.Instant) {
      if now - windowStart > .seconds(10) { (requests, failures, windowStart) = (0, 0, now) }
      requests += 1
    }
  }

  /// So many requests in the window tell of an engine that fails now and then.
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

  /// How long it lets nothing through from now on; nil if it would let a request through.
  var pause: Duration? {
    let now = now()
    return state.withLock { $0.pause(at: now, duringTrial: settings.pause) }
  }

  /// Asked before each request. Each one that is admitted ends with `succeed`, `fail` or `leave`.
  ///
  /// - Returns: nil if the engine is left alone.
  /// - Complexity: O(1), without a system call but for the clock.
  func admit() -> Ticket? {
    let now = now()
    return state.withLock { state in
      guard state.pause(at: now, duringTrial: settings.pause) == nil else { return nil }
      let ticket = Ticket(isTrial: state.openUntil != nil)
      if ticket.isTrial { state.isTried = true }
      return ticket
    }
  }

  /// - Returns: whether it has closed now.
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

  /// Ends a request whose caller has left before its answer.
  func leave(_ ticket: Ticket) {
    if ticket.isTrial { state.withLock { $0.isTried = false } }
  }

  private func longerPause(_ state: State) -> Duration {
    min(max(state.lastPause * 2, settings.pause), settings.longestPause)
  }

  /// - Returns: whether it has opened now.
  @discardableResult
  func fail(_ kind: RemoteError.Kind, _ ticket: Ticket = Ticket()) -> Bool {
    let now = now()
    return state.withLock { state in
      // Requests from before it opened end one by one, and say nothing new.
      guard ticket.isTrial || state.openUntil == nil else { return false }
      if ticket.isTrial { state.isTried = false }
      state.count(at: now)
      state.failuresInRow += 1
      state.failures += 1
      let pause: Duration
      switch kind {
      case .refused: pause = settings.longestPause
      case .throttled(let asked):
        // A server may ask for no time at all, again and again.
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
