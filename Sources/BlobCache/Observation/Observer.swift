internal import BlobRecord
internal import Locks
internal import Logging
internal import Synchronization

/// The listeners of the cache's events: event streams and metrics.
struct Observer: Sendable {
  let events = EventBroadcast()
  let metrics: CacheMetrics?

  init(cache: String) {
    metrics = CacheMetrics(cache: cache)
  }

  /// A Boolean value that indicates whether there are listeners; otherwise no events are created.
  var isWatching: Bool { metrics != nil || events.isHeard }

  func tell(_ event: @autoclosure () -> CacheEvent) {
    guard isWatching else { return }
    let event = event()
    metrics?.record(event)
    events.send(event)
  }

  func stopwatch() -> Stopwatch { Stopwatch(start: isWatching ? .now : nil) }
}

/// A stopwatch, which reports the duration since its start, or zero without listeners.
struct Stopwatch: Sendable {
  fileprivate let start: ContinuousClock.Instant?

  var elapsed: Duration { start.map { $0.duration(to: .now) } ?? .zero }
}

/// Sends events to all listeners; a slow listener loses the oldest events.
final class EventBroadcast: Sendable {
  private struct State: Sendable {
    var listeners: [UInt64: AsyncStream<CacheEvent>.Continuation] = [:]
    var nextID: UInt64 = 0
    var isFinished = false
  }

  private let state = Lock(State())
  private let listenerCount = Atomic(0)

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

  /// Creates a tracing span for an operation on disk or a production; the tracer must be trusted with the key.
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
  /// The implementation without the trait `Tracing`.
  func withSpan<Result>(
    _ operation: String, _ key: BlobKey?, _ body: () async throws -> Result
  ) async throws -> Result {
    try await body()
  }
#endif
