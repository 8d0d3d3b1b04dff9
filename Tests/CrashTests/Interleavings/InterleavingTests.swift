import BlobStore
import FaultOperations
import TestSupport
import Testing

/// Two processes on one key, one of which is held at a call.
@Suite(.whereTracingWorks, .serialized) struct InterleavingTests {
  static let seed = SeededGenerator.announcedSeed(for: "InterleavingTests")

  static func operations(_ tag: String) -> [FaultOperation] {
    [
      .store(Scenario.subject, PayloadName(tag, tag == "first" ? 5000 : 2000), locks: tag == "second" ? .one : .none),
      .load(Scenario.subject, touching: true),
      .touch(Scenario.subject),
      .lock(Scenario.subject),
      .unlock(Scenario.subject),
      .remove(Scenario.subject),
      .collect(evicting: true),
      .removeAll(.all),
    ]
  }

  @Test func everyScheduleIsASerialOrder() async throws {
    struct Pair: Sendable {
      var first: Scenario
      var second: FaultOperation
      var seed: UInt64
    }
    var pairs: [Pair] = []
    for start in [StartState.locked, .unlocked, .absent, .expired, .warmUnlocked, .warmAbsent] {
      for first in Self.operations("first") {
        for second in Self.operations("second") {
          let scenario = Scenario(operation: first, start: start, durability: .none)
          pairs.append(Pair(first: scenario, second: second, seed: Self.seed &+ UInt64(pairs.count)))
        }
      }
    }
    try await FaultRuns.run("interleavings", pairs) { pair, directories in
      var generator = SeededGenerator(seed: pair.seed)
      let checker = InterleavingChecker(first: pair.first, second: pair.second, directories: directories)
      let all = try checker.calls()
      // The short form holds at every decisive call in one start state, and at a sample in the others.
      let calls =
        FaultTools.isLong
        ? all : pair.first.start == .locked ? all.decisive : all.decisive.sampled(1, &generator)
      return FaultRuns.Outcome(
        runs: calls.count, violations: try calls.flatMap { try checker.checkOrder(at: $0.number) })
    }
  }

  @Test func aStoppedHolderKeepsNobodyForLong() async throws {
    struct Case: Sendable {
      var holder: Scenario
      var writer: FaultOperation
      var seed: UInt64
    }
    var cases: [Case] = []
    for holder in Self.operations("first") {
      for start in FaultTools.isLong
        ? [StartState.locked, .unlocked, .absent, .warmUnlocked] : [.locked, .warmUnlocked]
      {
        let writers: [FaultOperation] =
          FaultTools.isLong
          ? [.lock(Scenario.subject), .store(Scenario.subject, PayloadName("second", 2000)), .remove(Scenario.subject)]
          : [.lock(Scenario.subject)]
        for writer in writers {
          let scenario = Scenario(operation: holder, start: start, durability: .none)
          cases.append(Case(holder: scenario, writer: writer, seed: Self.seed &+ 5000 &+ UInt64(cases.count)))
        }
      }
    }
    try await FaultRuns.run("stopped holders", cases) { one, directories in
      var generator = SeededGenerator(seed: one.seed)
      let checker = InterleavingChecker(first: one.holder, second: one.writer, directories: directories)
      let calls = try checker.calls()
      // The short form kills only at calls where the position of the dead process matters.
      let deadly = FaultTools.isLong ? calls : calls.decisive
      let ways = deadly.map { ($0.number, true) } + calls.sampled(6, &generator).map { ($0.number, false) }
      return FaultRuns.Outcome(
        runs: ways.count,
        violations: try ways.flatMap { try checker.checkStopped(at: $0.0, thenKill: $0.1) })
    }
  }
}
