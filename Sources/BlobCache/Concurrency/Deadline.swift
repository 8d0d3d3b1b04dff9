internal import Locks
internal import Synchronization

/// Limits how long calls wait, by one timer for all of them: a timer for each would cost more than the rest of a fast call.
///
/// A call runs in a task of its own, which is cancelled when its time is over. One that does not heed that goes on alone.
/// The timer is a task that sleeps until the earliest deadline. It ends when nothing is left to watch.
final class Deadline: Sendable {
  /// Is called at a deadline, with the time that it has taken to come.
  ///
  /// - Returns: the time until the next one; nil for none.
  typealias Alarm = @Sendable (Duration) -> Duration?

  private struct State {
    var table = DeadlineTable()
    /// The task that sleeps until the earliest deadline.
    var timer: Task<Void, Never>?
  }

  private let clock: any Clock<Duration>
  /// What the clock shows, since this was made.
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

  /// The pieces of a call that have come.
  final class Pace: Sendable {
    private let count = Atomic(0)
    private let seen = Atomic(0)
    private let paused = Atomic(false)

    /// Whether a piece had come by the latest look.
    var hasBegun: Bool { seen.load(ordering: .relaxed) > 0 }

    /// Whether nothing has come since the latest look, while the call was waited for. This is a look.
    func isStalled() -> Bool {
      let pieces = count.load(ordering: .relaxed)
      return seen.exchange(pieces, ordering: .relaxed) == pieces && !paused.load(ordering: .relaxed)
    }

    func pause() { paused.store(true, ordering: .relaxed) }
    /// A piece has come, or the next is awaited again.
    func move() {
      paused.store(false, ordering: .relaxed)
      count.add(1, ordering: .relaxed)
    }
  }
}

// MARK: - Calls

extension Deadline {
  /// Runs a call for as long as its pieces come in time.
  ///
  /// - Parameters:
  ///   - first: how long nothing may come in the beginning.
  ///   - progress: how long nothing may come later. It is noticed before twice that time is over.
  ///   - failure: the error of a call whose time is over. It receives whether a piece had come, and the time that is over.
  ///   - call: says of each piece that it has come.
  /// - Throws: `failure`; what the call throws; `CancellationError` if the task is cancelled.
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

/// Begins a task on the caller's thread, up to where it first waits: so that no other thread is woken for it.
private func begin(_ operation: sending @escaping @isolated(any) () async -> Void) -> Task<Void, Never> {
  if #available(macOS 26, iOS 26, *) { Task.immediate(operation: operation) } else { Task(operation: operation) }
}

/// The first of several results that may come, and the task that waits for it.
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

  /// - Throws: the error of a failure; `CancellationError` if the task is cancelled while it waits.
  func value() async throws -> Success {
    try await state.wait(in: \.waiting, for: ()) { state, _ in state.result }.get()
  }
}

// MARK: - The timer

extension Deadline {
  /// Calls the alarm when a time is over, and again when the time is over that it answers.
  ///
  /// - Complexity: O(1), and a task if its deadline comes before all others.
  func watch(for time: Duration, _ alarm: @escaping Alarm) -> DeadlineTable.Ticket {
    // A time that ends after the clock's last moment would be none.
    let time = min(time, .seconds(1 << 32))
    let deadline = elapsed() + time
    return state.withLock { state in
      let (ticket, sleeper) = state.table.add(at: deadline, after: time, alarm)
      if let sleeper {
        state.timer?.cancel()
        // It belongs to all callers, so it has the priority of none.
        state.timer = Task.detached { await self.sleep(until: deadline, as: sleeper) }
      }
      return ticket
    }
  }

  /// Calls the alarm no more.
  func end(_ ticket: DeadlineTable.Ticket) {
    // What sleeps goes on: the next deadline is near, and waking it now would cost a switch of tasks.
    state.withLock { $0.table.remove(ticket) }
  }

  private func sleep(until deadline: Duration, as sleeper: UInt64) async {
    var deadline: Duration? = deadline
    while let end = deadline {
      // The sleep's only error is its cancellation: another one sleeps, until an earlier deadline.
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

/// The deadlines that one timer watches, and who sleeps until the earliest.
struct DeadlineTable: Sendable {
  struct Ticket: Hashable, Sendable {
    fileprivate let number: UInt64
  }

  struct Entry: Sendable {
    fileprivate var deadline: Duration
    /// The time that is over at the deadline.
    fileprivate(set) var time: Duration
    let alarm: Deadline.Alarm
  }

  private var entries: [Ticket: Entry] = [:]
  private var nextNumber: UInt64 = 0
  /// Who sleeps, and until when; nil where nothing is watched.
  private(set) var sleeper: (number: UInt64, end: Duration)?

  private mutating func number() -> UInt64 {
    defer { nextNumber += 1 }
    return nextNumber
  }

  /// - Returns: the number of a sleeper that has to sleep until the deadline, in the place of another; `nil` if another
  ///   one wakes early enough.
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

  /// What is over; nothing for a sleeper that another has replaced.
  func due(at now: Duration, for number: UInt64) -> [Ticket: Entry] {
    sleeper?.number == number ? entries.filter { $0.value.deadline <= now } : [:]
  }

  /// Sets the next deadlines of what was due, and removes what has none.
  ///
  /// - Returns: until when the sleeper sleeps; nil if it ends, because nothing is left or another has replaced it.
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
