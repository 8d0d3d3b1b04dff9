internal import Logging

/// The listeners to what the cache does: event streams and metrics.
struct Observer: Sendable {
  let events = EventBroadcast()
  let metrics: CacheMetrics?

  init(cache: String) {
    metrics = CacheMetrics(cache: cache)
  }

  /// Whether anybody does. Without, no event is made, and no clock read for one.
  var isWatching: Bool { metrics != nil || events.isHeard }

  func tell(_ event: @autoclosure () -> CacheEvent) {
    guard isWatching else { return }
    let event = event()
    metrics?.record(event)
    events.send(event)
  }

  /// Measures a duration, if there is a listener.
  func stopwatch() -> Stopwatch { Stopwatch(start: isWatching ? .now : nil) }
}

/// How long something has taken; zero without a listener.
struct Stopwatch: Sendable {
  fileprivate let start: ContinuousClock.Instant?

  var elapsed: Duration { start.map { $0.duration(to: .now) } ?? .zero }
}
