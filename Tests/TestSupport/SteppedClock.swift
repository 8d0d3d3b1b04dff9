internal import Locks

/// A clock that a test advances.
package final class SteppedClock: Clock {
  package struct Instant: InstantProtocol {
    package var offset: Duration
    package func advanced(by duration: Duration) -> Instant { Instant(offset: offset + duration) }
    package func duration(to other: Instant) -> Duration { other.offset - offset }
    package static func < (first: Instant, second: Instant) -> Bool { first.offset < second.offset }
  }

  private struct State {
    var now = Instant(offset: .zero)
    var sleepers: [Int: (end: Instant, waiter: CheckedContinuation<Void, any Error>)] = [:]
    var sleepCount = 0
  }

  private let state = Lock(State())

  package init() {}

  package var now: Instant { state.withLock { $0.now } }
  package var minimumResolution: Duration { .nanoseconds(1) }
  /// The number of sleeps that have started.
  package var sleepCount: Int { state.withLock { $0.sleepCount } }
  /// The time at which the next sleep ends, or `nil` without a sleeper.
  package var nextEnd: Duration? { state.withLock { $0.sleepers.values.map(\.end.offset).min() } }

  package func advance(by duration: Duration) {
    let woken = state.withLock { state in
      state.now = state.now.advanced(by: duration)
      let woken = state.sleepers.filter { $0.value.end <= state.now }
      for number in woken.keys { state.sleepers[number] = nil }
      return woken
    }
    for sleeper in woken.values { sleeper.waiter.resume() }
  }

  package func sleep(until deadline: Instant, tolerance: Duration?) async throws {
    let number = state.withLock { state in
      state.sleepCount += 1
      return state.sleepCount
    }
    try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { waiter in
        let result = state.withLock { state -> Result<Void, any Error>? in
          // Checked under the lock, so that a later cancellation finds the sleeper.
          if Task.isCancelled { return .failure(CancellationError()) }
          if deadline <= state.now { return .success(()) }
          state.sleepers[number] = (deadline, waiter)
          return nil
        }
        if let result { waiter.resume(with: result) }
      }
    } onCancel: {
      state.withLock { $0.sleepers.removeValue(forKey: number) }?.waiter.resume(throwing: CancellationError())
    }
  }
}
