internal import Locks
internal import Synchronization

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
