internal import Locks
internal import Synchronization

/// Timeouts for calls, which share one timer, because a timer for each would cost more than the rest of a fast call.
///
/// A call runs in its own task, which is cancelled at the timeout; if it ignores the cancellation, its result is
/// ignored. The timer is a task that sleeps until the earliest deadline. It ends when no deadline is left.
final class Deadline: Sendable {
  /// Called at a deadline with the time that has passed; returns the time until the next deadline, or `nil`.
  typealias Alarm = @Sendable (Duration) -> Duration?

  private struct State {
    var table = DeadlineTable()
    var timer: Task<Void, Never>?
  }

  private let clock: any Clock<Duration>
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

  /// The progress of a call that receives its result in pieces.
  final class Pace: Sendable {
    private let count = Atomic(0)
    private let seen = Atomic(0)
    private let paused = Atomic(false)

    /// A Boolean value that indicates whether the latest check has seen a piece.
    var hasBegun: Bool { seen.load(ordering: .relaxed) > 0 }

    /// Returns a Boolean value that indicates whether no piece has arrived since the latest check, unless paused.
    func isStalled() -> Bool {
      let pieces = count.load(ordering: .relaxed)
      return seen.exchange(pieces, ordering: .relaxed) == pieces && !paused.load(ordering: .relaxed)
    }

    func pause() { paused.store(true, ordering: .relaxed) }
    /// Records that a piece has arrived, or that the next one is awaited again.
    func move() {
      paused.store(false, ordering: .relaxed)
      count.add(1, ordering: .relaxed)
    }
  }
}

// MARK: - Calls

extension Deadline {
  /// Runs a call with timeouts for its pieces.
  ///
  /// - Parameters:
  ///   - first: The timeout of the first piece.
  ///   - progress: The timeout of later pieces. It is detected before twice this time has passed.
  ///   - failure: Returns the error of a timeout, given whether a piece had arrived, and the time that has passed.
  /// - Throws: `failure`, errors of the call, or `CancellationError` if the task is cancelled.
  func run<Result: Sendable>(
    first: Duration, progress: Duration, failure: @escaping @Sendable (_ hasBegun: Bool, Duration) -> any Error,
    _ call: @escaping @Sendable (Pace) async throws -> Result
  ) async throws -> Result {
    let (outcome, pace) = (FirstResult<Result>(), Pace())
    let ticket = watch(for: first) { time in
      guard pace.isStalled() else { return progress }
      outcome.end(.failure(failure(pace.hasBegun, time)))
      return nil
    }
    let running = begin {
      do {
        outcome.end(.success(try await call(pace)))
      } catch {
        outcome.end(.failure(error))
      }
    }
    defer {
      running.cancel()
      end(ticket)
    }
    return try await outcome.value()
  }
}

/// Starts a task on the caller's thread, up to its first suspension, so that no other thread is woken for it.
private func begin(_ operation: sending @escaping @isolated(any) () async -> Void) -> Task<Void, Never> {
  if #available(macOS 26, iOS 26, *) { Task.immediate(operation: operation) } else { Task(operation: operation) }
}

/// The first of several possible results, and the tasks that wait for it.
private final class FirstResult<Success: Sendable>: Sendable {
  private struct State: Sendable {
    var result: Result<Success, any Error>?
    var waiting = WaitList<SuspendedTask<Result<Success, any Error>, Void>>()
  }

  private let state = Lock(State())

  func end(_ result: Result<Success, any Error>) {
    let waiting = state.withLock { state in
      guard state.result == nil else { return [SuspendedTask<Result<Success, any Error>, Void>]() }
      state.result = result
      return state.waiting.removeAll()
    }
    for task in waiting { task.continuation.resume(returning: result) }
  }

  func value() async throws -> Success {
    try await state.wait(in: \.waiting, for: ()) { state, _ in state.result }.get()
  }
}

// MARK: - The timer

extension Deadline {
  /// Calls the alarm after a time, and again after each duration that the alarm returns, until it returns `nil`.
  ///
  /// - Complexity: O(1), and a task if the deadline is the earliest one.
  func watch(for time: Duration, _ alarm: @escaping Alarm) -> DeadlineTable.Ticket {
    // Limited, because the deadline could exceed the range of the clock.
    let time = min(time, .seconds(1 << 32))
    let deadline = elapsed() + time
    return state.withLock { state in
      let (ticket, sleeper) = state.table.add(at: deadline, after: time, alarm)
      if let sleeper {
        state.timer?.cancel()
        // Detached, because the task serves all callers and must not inherit the priority of one.
        state.timer = Task.detached { await self.sleep(until: deadline, as: sleeper) }
      }
      return ticket
    }
  }

  func end(_ ticket: DeadlineTable.Ticket) {
    // The timer task is not woken, because it wakes soon anyway, and waking it now would cost a task switch.
    state.withLock { $0.table.remove(ticket) }
  }

  private func sleep(until deadline: Duration, as sleeper: UInt64) async {
    var deadline: Duration? = deadline
    while let end = deadline {
      // The only error is the cancellation, after which another task sleeps until an earlier deadline.
      guard (try? await clock.sleep(for: end - elapsed(), tolerance: .milliseconds(1))) != nil else { return }
      let now = elapsed()
      let due = state.withLock { $0.table.due(at: now, for: sleeper) }
      let answers = due.mapValues { $0.alarm($0.time) }
      deadline = state.withLock { state in
        let next = state.table.settle(answers, at: now, for: sleeper)
        if state.table.sleeper == nil { state.timer = nil }
        return next
      }
    }
  }
}

/// The deadlines of one timer, and the task (sleeper) that sleeps until the earliest one.
struct DeadlineTable: Sendable {
  struct Ticket: Hashable, Sendable {
    fileprivate let number: UInt64
  }

  struct Entry: Sendable {
    fileprivate var deadline: Duration
    fileprivate(set) var time: Duration
    let alarm: Deadline.Alarm
  }

  private var entries: [Ticket: Entry] = [:]
  private var nextNumber: UInt64 = 0
  /// The current sleeper and its deadline, or `nil` without deadlines.
  private(set) var sleeper: (number: UInt64, end: Duration)?

  private mutating func number() -> UInt64 {
    defer { nextNumber += 1 }
    return nextNumber
  }

  /// - Returns: The number of a new sleeper for this deadline, or `nil` if the current one wakes early enough.
  mutating func add(at deadline: Duration, after time: Duration, _ alarm: @escaping Deadline.Alarm) -> (Ticket, UInt64?)
  {
    let ticket = Ticket(number: number())
    entries[ticket] = Entry(deadline: deadline, time: time, alarm: alarm)
    if let sleeper, !(deadline < sleeper.end) { return (ticket, nil) }
    let own = number()
    sleeper = (own, deadline)
    return (ticket, own)
  }

  mutating func remove(_ ticket: Ticket) { entries[ticket] = nil }

  /// Returns the entries that are due, or an empty dictionary for a replaced sleeper.
  func due(at now: Duration, for number: UInt64) -> [Ticket: Entry] {
    sleeper?.number == number ? entries.filter { $0.value.deadline <= now } : [:]
  }

  /// Sets the next deadlines of the entries that were due, and returns the sleeper's next deadline, or `nil`.
  mutating func settle(_ answers: [Ticket: Duration?], at now: Duration, for number: UInt64) -> Duration? {
    guard sleeper?.number == number else { return nil }
    for (ticket, time) in answers {
      guard let time, entries[ticket] != nil else {
        entries[ticket] = nil
        continue
      }
      entries[ticket]?.time = time
      entries[ticket]?.deadline = now + time
    }
    let next = entries.values.map(\.deadline).min()
    sleeper = next.map { (number, $0) }
    return next
  }
}
