internal import BlobRecord
internal import Locks
internal import Logging
internal import Synchronization

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

/// Hands events to all listeners; a slow one loses the oldest.
final class EventBroadcast: Sendable {
  private struct State: Sendable {
    var listeners: [UInt64: AsyncStream<CacheEvent>.Continuation] = [:]
    var nextID: UInt64 = 0
    var isFinished = false
  }

  private let state = Lock(State())
  private let listenerCount = Atomic(0)

  /// Whether there is a listener: without one, an event need not be made.
  var isHeard: Bool { listenerCount.load(ordering: .relaxed) > 0 }

  func events(bufferSize: Int) -> AsyncStream<CacheEvent> {
    let (stream, continuation) = AsyncStream.makeStream(
      of: CacheEvent.self, bufferingPolicy: .bufferingNewest(max(bufferSize, 1)))
    let id = state.withLock { state -> UInt64? in
      guard !state.isFinished else { return nil }
      defer { state.nextID += 1 }
      state.listeners[state.nextID] = continuation
      listenerCount.add(1, ordering: .relaxed)
      return state.nextID
    }
    guard let id else {
      continuation.finish()
      return stream
    }
    continuation.onTermination = { [weak self] _ in self?.remove(id) }
    return stream
  }

  private func remove(_ id: UInt64) {
    let removed = state.withLock { $0.listeners.removeValue(forKey: id) }
    if removed != nil { listenerCount.subtract(1, ordering: .relaxed) }
  }

  func send(_ event: @autoclosure () -> CacheEvent) {
    guard isHeard else { return }
    let listeners = state.withLock { Array($0.listeners.values) }
    guard !listeners.isEmpty else { return }
    let event = event()
    for listener in listeners { listener.yield(event) }
  }

  func finish() {
    let listeners = state.withLock { state in
      state.isFinished = true
      return Array(state.listeners.values)
    }
    for listener in listeners { listener.finish() }
  }
}

#if Tracing
  internal import Tracing

  /// Makes a span of swift-distributed-tracing around an operation that goes to disk, or produces.
  ///
  /// The key is an attribute, so a tracer must be trusted with keys.
  func withSpan<Result>(
    _ operation: String, _ key: BlobKey?, _ body: () async throws -> Result
  ) async throws -> Result {
    let tracer = InstrumentationSystem.tracer
    guard !(tracer is NoOpTracer) else { return try await body() }
    let span = tracer.startAnySpan("blobcache." + operation)
    defer { span.end() }
    if let key { span.attributes["blobcache.key"] = key.string }
    do {
      return try await ServiceContext.$current.withValue(span.context) { try await body() }
    } catch {
      span.recordError(error)
      throw error
    }
  }
#else
  /// The trait `Tracing` is off: there is nothing to make spans with.
  func withSpan<Result>(
    _ operation: String, _ key: BlobKey?, _ body: () async throws -> Result
  ) async throws -> Result {
    try await body()
  }
#endif
