@testable import BlobCache
import Locks
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(30))) struct DeadlineTests {
  private let clock = SteppedClock()
  private let alarms = Log<String>()

  private func pass(_ time: Duration) async throws {
    try await until { clock.nextEnd == clock.now.offset + time }
    clock.advance(by: time)
  }

  private func watch(
    _ watch: Deadline, _ name: String, for time: Duration, then next: Duration? = nil
  ) -> DeadlineTable.Ticket {
    watch.watch(for: time) { [alarms] patience in
      alarms.append("\(name) after \(patience)")
      return next
    }
  }

  @Test func manyCallsShareOneSleep() async throws {
    let deadlines = Deadline(clock: clock)
    for number in 0..<100 { _ = watch(deadlines, "\(number)", for: .seconds(1)) }
    try await pass(.seconds(1))
    try await until { alarms.all.count == 100 }
    #expect(clock.sleepCount == 1)
  }

  @Test func anEarlierDeadlineComesFirst() async throws {
    let deadlines = Deadline(clock: clock)
    _ = watch(deadlines, "late", for: .seconds(10))
    _ = watch(deadlines, "early", for: .seconds(1))
    try await pass(.seconds(1))
    try await until { alarms.all == ["early after 1.0 seconds"] }
    try await pass(.seconds(9))
    try await until { alarms.all.count == 2 }
    #expect(alarms.all.last == "late after 10.0 seconds")
  }

  @Test func anAlarmMayAskForAnotherTime() async throws {
    let deadlines = Deadline(clock: clock)
    let ticket = watch(deadlines, "call", for: .seconds(1), then: .seconds(5))
    try await pass(.seconds(1))
    try await pass(.seconds(5))
    try await until { alarms.all == ["call after 1.0 seconds", "call after 5.0 seconds"] }
    deadlines.end(ticket)
  }

  @Test func whatHasEndedIsNotTold() async throws {
    let deadlines = Deadline(clock: clock)
    let ticket = watch(deadlines, "ended", for: .seconds(1))
    _ = watch(deadlines, "other", for: .seconds(1))
    deadlines.end(ticket)
    try await pass(.seconds(1))
    try await until { !alarms.all.isEmpty }
    #expect(alarms.all == ["other after 1.0 seconds"])
  }

  /// Timing stops when the last call ends, and starts again with the next call.
  @Test func itBeginsAnew() async throws {
    let deadlines = Deadline(clock: clock)
    for name in ["first", "second"] {
      _ = watch(deadlines, name, for: .seconds(1))
      try await pass(.seconds(1))
      try await until { alarms.all.last == "\(name) after 1.0 seconds" }
    }
  }
}

@Suite struct DeadlineTableTests {
  private func add(_ table: inout DeadlineTable, _ seconds: Int) -> (ticket: DeadlineTable.Ticket, sleeper: UInt64?) {
    table.add(at: .seconds(seconds), after: .seconds(seconds)) { _ in nil }
  }

  @Test func anotherSleeperIsNeededForAnEarlierDeadlineOnly() throws {
    var table = DeadlineTable()
    let first = try #require(add(&table, 5).sleeper)
    #expect(add(&table, 5).sleeper == nil)
    #expect(add(&table, 9).sleeper == nil)
    let second = try #require(add(&table, 2).sleeper)
    #expect(first != second)
    #expect(table.sleeper?.number == second && table.sleeper?.end == .seconds(2))
    // The superseded watch finds no calls that are due, and ends.
    #expect(table.due(at: .seconds(9), for: first).isEmpty)
    #expect(table.settle([:], at: .seconds(9), for: first) == nil)
    #expect(table.due(at: .seconds(5), for: second).count == 3)
  }

  @Test func whatIsDueGoesOrGetsAnotherDeadline() throws {
    var table = DeadlineTable()
    let (ending, sleeper) = add(&table, 1)
    let (lasting, _) = add(&table, 1)
    let number = try #require(sleeper)
    let due = table.due(at: .seconds(1), for: number)
    #expect(due[ending]?.time == .seconds(1) && due.count == 2)
    #expect(table.settle([ending: nil, lasting: .seconds(4)], at: .seconds(1), for: number) == .seconds(5))
    #expect(table.due(at: .seconds(5), for: number)[lasting]?.time == .seconds(4))
    table.remove(lasting)
    #expect(table.due(at: .seconds(5), for: number).isEmpty)
    #expect(table.settle([:], at: .seconds(5), for: number) == nil)
    #expect(table.sleeper == nil)
  }
}
