import BlobStore
import FaultOperations
import Foundation
import TestSupport
import Testing

/// Kills before each system call and each step in shared memory, of every operation on packed records. The short form
/// runs a random sample.
@Suite(.serialized) struct PackCrashTests {
  static let seed = SeededGenerator.announcedSeed(for: "PackCrashTests")

  /// The operations of the next process.
  static let sequels: [FaultOperation] = [
    .store(PackScenario.subject, PayloadName("sequel", 900), locks: .keep), .lock(PackScenario.subject),
    .store(PackScenario.subject, PayloadName("sequel", 6000)), .remove(PackScenario.subject),
    .unlock(PackScenario.subject), .touch(PackScenario.subject),
  ]

  @Test func everyKillLeavesOldOrNew() async throws {
    try await Self.run("kills with packs", PackScenario.all) { scenario, start, generator in
      let run = try Run(scenario, start)
      var found = run.violations
      let chosen = Array(run.decisiveSteps.enumerated()).sampled(3, &generator)
      for (index, step) in chosen {
        found += try run.check(killedBefore: step, then: Self.sequels[(index + step) % Self.sequels.count])
      }
      return FaultRuns.Outcome(runs: chosen.count, violations: found)
    }
  }

  /// The process that finishes an operation of a killed process is killed too.
  @Test func aSecondKillIsNoWorse() async throws {
    try await Self.run("second kills with packs", PackScenario.all) { scenario, start, generator in
      let run = try Run(scenario, start)
      var cases: [(Int, FaultOperation, Int)] = []
      for step in run.stepsInMemory {
        for sequel in Self.sequels { for second in 1...60 { cases.append((step, sequel, second)) } }
      }
      let chosen = cases.sampled(1, long: 600, &generator)
      let found = try chosen.flatMap { try run.check(killedBefore: $0.0, then: $0.1, killedBefore: $0.2) }
      return FaultRuns.Outcome(runs: chosen.count, violations: found)
    }
  }

  static func run(
    _ name: String, _ scenarios: [PackScenario],
    _ body: @escaping @Sendable (PackScenario, String, inout SeededGenerator) throws -> FaultRuns.Outcome
  ) async throws {
    let workspace = try Workspace()
    for start in PackStart.allCases { try start.build(at: workspace.path(start.rawValue)) }
    try await FaultRuns.run(name, Array(scenarios.enumerated())) { numbered, _ in
      var generator = SeededGenerator(seed: seed &+ UInt64(numbered.offset))
      return try body(numbered.element, workspace.path(numbered.element.start.rawValue), &generator)
    }
  }

  /// An operation without a kill, which the runs with a kill are compared with.
  struct Run {
    let scenario: PackScenario
    let start: String
    private let steps: [String]
    private let before: KeyState
    /// The violations without a kill.
    let violations: [String]

    init(_ scenario: PackScenario, _ start: String) throws {
      self.scenario = scenario
      self.start = start
      let directory = try PackDirectory(scenario, copying: start)
      before = try directory.state().subject
      let report = try directory.run(killedBefore: 0)
      steps = report?.steps ?? []
      let after = try directory.state()
      var found = after.flaws
      let model = OperationModel.steps(
        scenario.operation, on: PackScenario.subject, in: before, isDisturbed: false)
      // Results are compared only for operations on a key.
      let result = scenario.operation.key == nil ? nil : report?.result.essence
      if report?.result.outcome == .failed
        || !model.contains(where: { $0.state == after.subject && $0.result == result })
      {
        found.append("\(after.subject), result \(String(describing: report?.result))")
      }
      let audit = try directory.audit()
      found += audit.flaws + audit.announced.map { "still announced: \($0)" }
      violations = found.map { "\(scenario): \($0)" }
    }

    /// The steps before which a kill can leave another state than before the previous step; reads change nothing.
    var decisiveSteps: [Int] {
      let looks = [
        "open", "openBeneath", "openCached", "openDirectory", "close", "status", "read", "readCached", "listDirectory",
        "volumeStatus", "map", "readAttribute", "askForLock",
      ]
      // A collection takes each of four thousand stripes once, and mostly changes nothing under it.
      let stripes = scenario.operation == .collect(evicting: false) ? ["takeStripe", "freeStripe"] : []
      return steps.indices.filter { !looks.contains(steps[$0]) && !stripes.contains(steps[$0]) }.map { $0 + 1 }
    }

    /// The steps in shared memory, and the steps between them.
    var stepsInMemory: [Int] {
      let first = steps.firstIndex(of: "announce") ?? steps.startIndex
      return decisiveSteps.filter { $0 > first }
    }

    /// - Parameters:
    ///   - step: The step before which the operation is killed.
    ///   - sequel: The operation of the next process.
    ///   - second: The step before which the next process is killed, or `nil` to let it finish.
    /// - Returns: The violations.
    func check(killedBefore step: Int, then sequel: FaultOperation, killedBefore second: Int? = nil) throws -> [String]
    {
      var found: [String] = []
      let directory = try PackDirectory(scenario, copying: start)
      if try directory.run(killedBefore: step) != nil { found.append("it was not killed") }
      let model = OperationModel.steps(scenario.operation, on: PackScenario.subject, in: before, isDisturbed: true)
      var allowed = Set(model.map(\.state)).union([before])
      var states = try look(at: directory, allowed, "afterwards", &found)
      if let second {
        _ = try directory.run(sequel, killedBefore: second)
        let steps = states.flatMap {
          OperationModel.steps(sequel, on: PackScenario.subject, in: $0, isDisturbed: true)
        }
        allowed = Set(steps.map(\.state)).union(states)
        states = try look(at: directory, allowed, "after the second", &found)
      }
      try finish(directory, sequel, from: states, isRebuilt: step.isMultiple(of: 8), &found)
      let text = second.map { " before step \($0)" } ?? ""
      return found.map { "\(scenario): killed before \(step) \(steps[step - 1]), then \(sequel)\(text): \($0)" }
    }

    /// - Returns: The states that the next change may start from: the current one, or the announced outcomes.
    private func look(
      at directory: PackDirectory, _ allowed: Set<KeyState>, _ when: String, _ found: inout [String]
    ) throws -> Set<KeyState> {
      let (state, flaws) = try directory.state()
      if !allowed.contains(state) { found.append("\(when): \(state), not one of \(allowed)") }
      let audit = try directory.audit()
      found += (flaws + audit.flaws).map { "\(when): \($0)" }
      // A rebuilt index would include every complete record in the packs, published or not.
      let newest = audit.newest[PackScenario.subject].map {
        KeyState.record(
          payload: PayloadDigest.of($0.payload), refCount: $0.header.refCount, ttl: $0.header.ttl,
          updateTime: $0.header.updateTime)
      }
      if let newest, !allowed.contains(where: { $0.hasSameRecord(as: newest) }) {
        found.append("\(when), by another index: \(newest), not one of \(allowed)")
      }
      return audit.announced.isEmpty ? [state] : allowed
    }

    /// Checks that the next process continues without a repair, and finishes everything.
    private func finish(
      _ directory: PackDirectory, _ sequel: FaultOperation, from states: Set<KeyState>, isRebuilt: Bool,
      _ found: inout [String]
    ) throws {
      let result = try sequel.run(directory.settings.makeStore())
      let expected = states.flatMap {
        OperationModel.steps(sequel, on: PackScenario.subject, in: $0, isDisturbed: false)
      }.filter { $0.result == result.essence }
      guard !expected.isEmpty else {
        found.append("at last: \(result) from \(states)")
        return
      }
      let after = try look(at: directory, Set(expected.map(\.state)), "at last", &found)
      // A collection may have announced a change under another key's stripe, which no process has taken since.
      if scenario.operation.key != nil {
        found += try directory.audit().announced.map { "at last: still announced: \($0)" }
      }
      // The packs are checked in every case, and in some cases by a process that rebuilds the index.
      guard isRebuilt else { return }
      let rebuilt = try directory.withoutIndex().state()
      if !after.contains(where: { $0.hasSameRecord(as: rebuilt.subject) }) {
        found.append("at last, by another index: \(rebuilt.subject), not one of \(after)")
      }
      found += rebuilt.flaws
    }
  }
}

extension KeyState {
  /// A Boolean value that indicates whether the records agree, apart from the time of use in the index.
  fileprivate func hasSameRecord(as other: KeyState) -> Bool {
    guard case .record(let payload, let refCount, let ttl, _) = self,
      case .record(let otherPayload, let otherRefCount, let otherTTL, _) = other
    else { return self == other }
    return (payload, refCount, ttl) == (otherPayload, otherRefCount, otherTTL)
  }
}
