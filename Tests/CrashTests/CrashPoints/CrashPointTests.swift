import BlobStore
import FaultOperations
import TestSupport
import Testing

/// Kills, torn and short writes, and errors at every call of every operation.
@Suite(.whereTracingWorks, .serialized) struct CrashPointTests {
  static let seed = SeededGenerator.announcedSeed(for: "CrashPointTests")

  static let operations: [FaultOperation] = [
    .store(Scenario.subject, Scenario.newPayload),
    .store(Scenario.subject, Scenario.newPayload, locks: .one),
    .store(Scenario.subject, Scenario.newPayload, locks: .keep),
    .storePieces(Scenario.subject, Scenario.newPayload),
    .storePieces(Scenario.subject, Scenario.newPayload, locks: .keep),
    .storeVisibly(Scenario.subject, Scenario.newPayload, locks: .keep),
    .load(Scenario.subject, touching: false),
    .load(Scenario.subject, touching: true),
    .touch(Scenario.subject),
    .lock(Scenario.subject),
    .unlock(Scenario.subject),
    .unlock(Scenario.subject, force: true),
    .remove(Scenario.subject),
    .removeAll(.all),
    .removeAll(.locked),
    .removeAll(.unlocked),
    .collect(evicting: false),
    .collect(evicting: true),
    .verify,
  ]

  static let scenarios: [Scenario] =
    operations.flatMap { operation in
      (FaultTools.isLong ? [.absent, .locked, .unlocked, .expired] : StartState.pair).map {
        Scenario(operation: operation, start: $0)
      }
    } + [
      Scenario(operation: .quarantine(Scenario.subject), start: .damaged),
      Scenario(operation: .store(Scenario.subject, Scenario.newPayload), start: .damaged),
      Scenario(operation: .store(Scenario.subject, Scenario.newPayload), start: .nothing),
      Scenario(operation: .lock(Scenario.subject), start: .withoutControlFile),
      Scenario(operation: .store(Scenario.subject, Scenario.newPayload), start: .locked, durability: .full),
      Scenario(operation: .store(Scenario.subject, Scenario.newPayload), start: .unlocked, durability: .barrier),
      Scenario(operation: .storePieces(Scenario.subject, Scenario.newPayload), start: .locked, durability: .full),
      Scenario(operation: .storeVisibly(Scenario.subject, Scenario.newPayload), start: .locked, durability: .full),
      Scenario(operation: .remove(Scenario.subject), start: .unlocked, durability: .full),
    ] + warm

  /// Operations that write or discard files while the recycling bin contains files to overwrite.
  static let warm: [Scenario] =
    StartState.warm.flatMap { start in
      [
        .store(Scenario.subject, Scenario.newPayload),
        .store(Scenario.subject, Scenario.newPayload, locks: .keep),
        .storePieces(Scenario.subject, Scenario.newPayload),
        .remove(Scenario.subject), .collect(evicting: true),
      ].map { Scenario(operation: $0, start: start) }
    } + [
      Scenario(operation: .removeAll(.all), start: .warmUnlocked),
      Scenario(operation: .store(Scenario.subject, Scenario.newPayload, locks: .one), start: .warmUnlocked),
      Scenario(operation: .store(Scenario.subject, Scenario.newPayload), start: .warmUnlocked, durability: .barrier),
    ]

  /// Stores that start a collection. A store does not report the collection's errors, so only kills are tested here.
  static let atLimit: [Scenario] = [.absent, .locked, .unlocked, .warmAbsent, .warmUnlocked].map {
    Scenario(operation: .storeAtLimit(Scenario.subject, Scenario.newPayload), start: $0)
  }

  @Test func everyCrashLeavesOldOrNew() async throws {
    try await FaultRuns.run("crashes", Self.scenarios + Self.atLimit) { scenario, directories in
      let checker = try CrashChecker(scenario, directories)
      let faults = PossibleFaults.crashes(checker.calls)
      return FaultRuns.Outcome(
        runs: faults.count, violations: checker.violations + (try faults.flatMap { try checker.check($0) }))
    }
  }

  @Test func everyErrorIsReportedAndHarmless() async throws {
    try await FaultRuns.run("errors", Array(Self.scenarios.enumerated())) { numbered, directories in
      var generator = SeededGenerator(seed: Self.seed &+ UInt64(numbered.offset))
      let checker = try CrashChecker(numbered.element, directories)
      let faults =
        PossibleFaults.errors(checker.calls).sampled(checker.calls.count / 2, &generator)
        + PossibleFaults.interruptions(checker.calls).sampled(checker.calls.count / 4, &generator)
      return FaultRuns.Outcome(runs: faults.count, violations: try faults.flatMap { try checker.check($0) })
    }
  }

  /// fdopendir(3) reads the descriptor's status, and was the only call that was not retried after an interruption.
  @Test func interruptedWalkGoesOn() async throws {
    try await FaultRuns.run("interruptions", [StartState.locked]) { start, directories in
      let checker = try CrashChecker(Scenario(operation: .verify, start: start), directories)
      let faults = PossibleFaults.interruptions(checker.calls)
      return FaultRuns.Outcome(runs: faults.count, violations: try faults.flatMap { try checker.check($0) })
    }
  }

  @Test func aSecondFaultIsNoWorse() async throws {
    let first = Self.scenarios.filter { $0.start == .absent || $0.start == .locked }
    try await FaultRuns.run("second faults", Array(first.enumerated())) { numbered, directories in
      let scenario = numbered.element
      var generator = SeededGenerator(seed: Self.seed &+ 1000 &+ UInt64(numbered.offset))
      let checker = try CrashChecker(scenario, directories)
      let sequels: [FaultOperation] = [
        .collect(evicting: false), .store(Scenario.subject, PayloadName("second", 900), locks: .keep),
        .lock(Scenario.subject), .removeAll(.all), scenario.operation,
      ]
      let crashes = PossibleFaults.crashes(checker.calls).filter(\.kills)
      var pairs: [(Fault, FaultOperation, Int)] = []
      for crash in crashes {
        // A sequel with fewer calls ends without a fault, and is checked as well.
        for sequel in sequels { for call in 1...24 { pairs.append((crash, sequel, call)) } }
      }
      let chosen = pairs.sampled(6, long: 1000, &generator)
      let violations = try chosen.flatMap { crash, sequel, call in
        try checker.check(
          crash,
          then: (
            Scenario(operation: sequel, start: scenario.start, durability: scenario.durability),
            Fault(call: call, kind: .kill)
          ))
      }
      return FaultRuns.Outcome(runs: chosen.count, violations: violations)
    }
  }
}
