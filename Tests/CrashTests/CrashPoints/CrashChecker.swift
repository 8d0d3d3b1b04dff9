import BlobRecord
import BlobStore
import FaultOperations
import Foundation

/// Runs a scenario with a fault and reports violations afterwards.
struct CrashChecker {
  let scenario: Scenario
  let directories: StartDirectories
  let plant: String?
  let calls: [TracedRun.Call]
  /// The violations of a run without a fault.
  let violations: [String]
  private let before: DirectoryState
  /// The number of the last call that changes the record's file. Before it, the operation has no effect.
  private let commitCall: Int

  init(_ scenario: Scenario, _ directories: StartDirectories, plant: String? = nil) throws {
    self.scenario = scenario
    self.directories = directories
    self.plant = plant
    let workspace = try Workspace()
    try directories.copy(scenario.start, to: workspace.path("cache"))
    before = try DirectoryState(inspecting: scenario.settings(workspace.path("cache")))
    let run = try TracedRun(scenario, .none, in: workspace, plant: plant, listsCalls: true)
    calls = run.calls
    let file = Scenario.subjectFile
    commitCall =
      calls.last { ($0.effect == "change" || $0.effect == "write") && ($0.path == file || $0.second == file) }?.number
      ?? 0
    var found: [String] = []
    let after = try DirectoryState(inspecting: scenario.settings(workspace.path("cache")))
    for key in Self.keys(before, after) {
      let steps = OperationModel.steps(scenario.operation, on: key, in: before[key], isDisturbed: false)
      let result = run.report?.result.essence
      if !steps.contains(where: { $0.state == after[key] && ($0.result == nil || $0.result == result) }) {
        found.append("\(scenario): \(key) is \(after[key]), result \(String(describing: result))")
      }
    }
    violations = found
  }

  private static func keys(_ states: DirectoryState...) -> [String] {
    Set(states.flatMap { $0.keys.keys } + [Scenario.subject]).sorted()
  }

  // MARK: - One run

  /// - Parameter second: The next operation, and its fault.
  /// - Returns: The violations.
  func check(_ fault: Fault, then second: (scenario: Scenario, fault: Fault)? = nil) throws -> [String] {
    let workspace = try Workspace()
    try directories.copy(scenario.start, to: workspace.path("cache"))
    var found: [String] = []
    let run = try TracedRun(scenario, fault, in: workspace, plant: plant)
    if !run.end.fired { found.append("the call did not come: \(run.end.calls) calls") }
    if run.end.timedOut { found.append("timed out") }
    if fault.kills, run.report != nil, run.end.status != 137 { found.append("was not killed: \(run.end.status)") }
    if !fault.kills, run.report == nil { found.append("ended with \(run.end.status) and no report") }
    let settings = scenario.settings(workspace.path("cache"))
    var state = try DirectoryState(inspecting: settings)
    var allowed: [String: Set<KeyState>] = [:]
    for key in Self.keys(before, state) {
      allowed[key] = allowedStates(of: key, fault, run.report?.result.essence)
    }
    found += Self.compare(state, allowed)
    if let report = run.report { found += checkReport(report, fault, state) }

    if let second {
      // The allowed outcome depends on the actual state, not on all allowed states.
      let between = state
      let run = try TracedRun(second.scenario, second.fault, in: workspace)
      if run.end.timedOut { found.append("second: timed out") }
      if !second.fault.kills, run.report == nil { found.append("second: ended with \(run.end.status)") }
      state = try DirectoryState(inspecting: settings)
      for key in Self.keys(between, state) {
        let steps = OperationModel.steps(second.scenario.operation, on: key, in: between[key], isDisturbed: true)
        allowed[key] = Set(steps.map(\.state)).union([between[key]])
      }
      found += Self.compare(state, allowed).map { "second: " + $0 }
    }
    found += try checkSequel(settings, state)
    let followed = second.map { ", then \($0.scenario.operation) with \($0.fault)" } ?? ""
    return found.map { "\(scenario): \(fault)\(followed): \($0)" }
  }

  /// Returns the states that the operation's documentation allows.
  private func allowedStates(of key: String, _ fault: Fault, _ result: OperationResult?) -> Set<KeyState> {
    let steps = OperationModel.steps(
      scenario.operation, on: key, in: before[key], isDisturbed: !fault.mustBeInvisible)
    let after = Set(steps.map(\.state))
    guard let result else { return after.union([before[key]]) }
    if result.outcome != .failed, result.outcome != .busy {
      // The operation reports success. Its result describes only its own key.
      return Set(steps.filter { $0.result == nil || $0.result == result }.map(\.state))
    }
    // The operation reports a failure, so it has changed nothing, or failed only to sync a complete change.
    if scenario.operation.key == nil { return after.union([before[key]]) }
    // A visible store removes the old blob at its beginning.
    if case .storeVisibly = scenario.operation { return after.union([before[key]]) }
    return fault.call <= commitCall ? [before[key]] : after.union([before[key]])
  }

  private static func compare(_ state: DirectoryState, _ allowed: [String: Set<KeyState>]) -> [String] {
    var found: [String] = []
    for (key, states) in allowed where !states.contains(state[key]) {
      found.append("\(key) is \(state[key]), not one of \(states)")
    }
    if !state.foreign.isEmpty { found.append("foreign: \(state.foreign)") }
    if !state.unreadable.isEmpty { found.append("unreadable: \(state.unreadable)") }
    return found
  }

  /// Checks the report of a process that survived a fault, and the files that it left.
  private func checkReport(_ report: ProbeReport, _ fault: Fault, _ state: DirectoryState) -> [String] {
    var found: [String] = []
    let result = report.result
    if fault.mustBeInvisible, result.outcome == .failed || result.outcome == .busy {
      found.append("was noticed: \(result)")
    }
    if case .fail(_, let once) = fault.kind {
      // A file that cannot be removed remains. A lock that cannot be released is held until the process ends.
      let call = calls.first { $0.number == fault.call }?.name
      if once, call != "unlinkat", !state.temporary.isEmpty { found.append("left behind: \(state.temporary)") }
      if once, call != "fcntl", call != "flock", !report.held.locks.isEmpty {
        found.append("locks left: \(report.held.locks)")
      }
      // The root, the control file and the recycling bin stay open, and so does the subject's subdirectory, once.
      let subdirectories = report.held.descriptors.filter { $0.hasSuffix("/\(Scenario.subject.prefix(2))") }
      if subdirectories.count > 1 || report.held.descriptors.count > 3 + subdirectories.count {
        found.append("open: \(report.held.descriptors)")
      }
    } else if !state.temporary.isEmpty {
      found.append("left behind: \(state.temporary)")
    }
    return found
  }

  // MARK: - Afterwards

  /// Checks that the next operations work without a repair, and that a collection cleans up.
  private func checkSequel(_ settings: StoreSettings, _ state: DirectoryState) throws -> [String] {
    var settings = settings
    settings.durability = .none
    settings.lockTimeout = .milliseconds(500)
    let store = try settings.makeStore()
    var found: [String] = []
    var expected = state
    func follow(_ operation: FaultOperation) {
      let key = Scenario.subject
      let result = operation.run(store)
      let steps = OperationModel.steps(operation, on: key, in: expected[key], isDisturbed: false)
      if steps.contains(where: { $0.result == result.essence }) {
        expected.keys[key] = steps[0].state == .absent ? nil : steps[0].state
      } else {
        found.append("then \(operation): \(result) from \(expected[key])")
      }
    }
    follow(.load(Scenario.subject, touching: false))
    follow(.lock(Scenario.subject))
    follow(.store(Scenario.subject, PayloadName("sequel", 700), locks: .keep))
    follow(.lock(Scenario.subject))
    follow(.load(Scenario.subject, touching: true))
    follow(.unlock(Scenario.subject))
    let collected = FaultOperation.collect(evicting: false).run(store)
    if collected.outcome != .done { found.append("then collect: \(collected)") }
    let after = try DirectoryState(inspecting: settings)
    for key in Self.keys(expected, after) {
      let steps = OperationModel.steps(.collect(evicting: false), on: key, in: expected[key], isDisturbed: false)
      if after[key] != steps[0].state { found.append("after all, \(key) is \(after[key]), not \(steps[0].state)") }
    }
    if !after.temporary.isEmpty { found.append("a collection leaves \(after.temporary)") }
    if !after.foreign.isEmpty { found.append("a collection leaves \(after.foreign)") }
    return found
  }
}
