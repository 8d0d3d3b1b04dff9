internal import Locks

/// Watches the deadlines of many calls by one timer: a timer for each would cost more than the rest of a fast call.
///
/// Its one task sleeps until the earliest deadline, and looks what is over by then. It ends when nothing is left to watch.
final class DeadlineWatch: Sendable {
  /// Is called at a deadline, with the time that it has taken to come.
  ///
  /// - Returns: the time until the next one; nil for none.
  typealias Alarm = @Sendable (Duration) -> Duration?

  struct Ticket: Sendable {
    fileprivate let number: UInt64
  }

  private struct Watched {
    var deadline: Duration
    var patience: Duration
    let alarm: Alarm
  }

  private struct State {
    var watched: [UInt64: Watched] = [:]
    var nextNumber: UInt64 = 0
    /// What sleeps, and until when; nil where nothing is watched.
    var sleeper: (number: UInt64, task: Task<Void, Never>, end: Duration)?

    mutating func number() -> UInt64 {
      defer { nextNumber += 1 }
      return nextNumber
    }
  }

  private let clock: any Clock<Duration>
  /// What the clock shows, since the watch was made.
  private let elapsed: @Sendable () -> Duration
  private let state = Lock(State())

  init(clock: any Clock<Duration>) {
    self.clock = clock
    elapsed = Self.stopwatch(clock)
  }

  private static func stopwatch<C: Clock>(_ clock: C) -> @Sendable () -> Duration where C.Duration == Duration {
    let start = clock.now
    return { start.duration(to: clock.now) }
  }

  /// Calls the alarm when a time is over, and again when the time is over that it answers.
  ///
  /// - Complexity: O(1), and a task if its deadline comes before all others.
  func watch(for patience: Duration, _ alarm: @escaping Alarm) -> Ticket {
    // A time that ends after the clock's last moment would be none.
    let patience = min(patience, .seconds(1 << 32))
    let deadline = elapsed() + patience
    return state.withLock { state in
      let number = state.number()
      state.watched[number] = Watched(deadline: deadline, patience: patience, alarm: alarm)
      if let sleeper = state.sleeper {
        guard deadline < sleeper.end else { return Ticket(number: number) }
        sleeper.task.cancel()
      }
      let own = state.number()
      // It belongs to all callers, so it has the priority of none.
      state.sleeper = (own, Task.detached { await self.sleep(until: deadline, as: own) }, deadline)
      return Ticket(number: number)
    }
  }

  /// Calls the alarm no more.
  func end(_ ticket: Ticket) {
    // What sleeps goes on: the next deadline is near, and waking it now would cost a switch of tasks.
    state.withLock { _ = $0.watched.removeValue(forKey: ticket.number) }
  }

  private func sleep(until deadline: Duration, as number: UInt64) async {
    var deadline: Duration? = deadline
    while let end = deadline {
      // The sleep's only error is its cancellation: another one sleeps, until an earlier deadline.
      guard (try? await clock.sleep(for: end - elapsed(), tolerance: .milliseconds(1))) != nil else { return }
      let now = elapsed()
      let over = state.withLock { state in
        state.sleeper?.number == number ? state.watched.filter { $0.value.deadline <= now } : [:]
      }
      let answers = over.mapValues { $0.alarm($0.patience) }
      deadline = state.withLock { state in
        guard state.sleeper?.number == number else { return nil }
        for (number, patience) in answers {
          guard let patience, state.watched[number] != nil else {
            state.watched[number] = nil
            continue
          }
          state.watched[number]?.patience = patience
          state.watched[number]?.deadline = now + patience
        }
        let next = state.watched.values.map(\.deadline).min()
        if let next { state.sleeper?.end = next } else { state.sleeper = nil }
        return next
      }
    }
  }
}
