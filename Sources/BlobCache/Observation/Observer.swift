internal import Logging

/// Who wants to know what the cache does: those who listen to events, and the metrics.
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

  /// Measures what may be of interest to somebody.
  func stopwatch() -> Stopwatch { Stopwatch(start: isWatching ? .now : nil) }
}

/// How long something has taken; zero where nobody wants to know.
struct Stopwatch: Sendable {
  fileprivate let start: ContinuousClock.Instant?

  var elapsed: Duration { start.map { $0.duration(to: .now) } ?? .zero }
}
