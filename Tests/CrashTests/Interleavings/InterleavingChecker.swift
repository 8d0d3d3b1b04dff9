import BlobStore
import FaultOperations
import Foundation

/// Holds one operation at a call while another runs, and says what is wrong afterwards.
struct InterleavingChecker {
  let first: Scenario
  let second: FaultOperation
  let directories: StartDirectories
  var firstPlant: String?
  var secondPlant: String?

  /// How long the second operation waits for a lock where the first does not go on before it has ended.
  static let deadlineMilliseconds = 60

  /// The calls of the first operation alone.
  func calls() throws -> [TracedRun.Call] {
    let workspace = try Workspace()
    try directories.copy(first.start, to: workspace.path("cache"))
    return try TracedRun(first, .none, in: workspace, plant: firstPlant, listsCalls: true).calls
  }

  // MARK: - Serial orders

  /// The first operation is held until the second has ended or waits, then goes on: both must have taken effect one
  /// after the other, their results included.
  func checkOrder(at call: Int) throws -> [String] {
    let workspace = try Workspace()
    try directories.copy(first.start, to: workspace.path("cache"))
    let settings = first.settings(workspace.path("cache"))
    let before = try DirectoryState(inspecting: settings)
    let line = TracedRun.shellLine(
      TracedRun.probe(
        Scenario(operation: second, start: first.start, durability: first.durability), workspace,
        result: TracedRun.otherResult(workspace, 0), plant: secondPlant))
    let fault = Fault(call: call, kind: .hold(other: "exec " + line, untilEnd: false, thenKill: false))
    let run = try TracedRun(first, fault, in: workspace, plant: firstPlant, others: 1)
    let after = try DirectoryState(inspecting: settings)
    var found: [String] = []
    if run.end.timedOut { found.append("timed out") }
    if !run.end.fired { found.append("the call did not come: \(run.end.calls) calls") }
    if run.end.otherBlocked, case .load = second { found.append("a load waits") }
    if !after.temporary.isEmpty || !after.foreign.isEmpty || !after.unreadable.isEmpty {
      found.append("left: \(after.temporary + after.foreign + after.unreadable)")
    }
    guard let firstResult = run.report?.result, let secondResult = run.others.first??.result else {
      return described(found + ["no report: \(run.end)"], call)
    }
    for key in Set(before.keys.keys).union(after.keys.keys).union([Scenario.subject]) {
      let possible =
        orders((first.operation, firstResult), (second, secondResult), key, before[key])
        + orders((second, secondResult), (first.operation, firstResult), key, before[key])
      if !possible.contains(after[key]) {
        found.append(
          "\(key) was \(before[key]), is \(after[key]); results \(firstResult.essence), \(secondResult.essence)")
      }
    }
    return described(found, call)
  }

  /// An operation and what it said of itself.
  private typealias Answered = (operation: FaultOperation, result: OperationResult)

  /// The states in which a key may end, given that the operations answered so.
  private func orders(_ a: Answered, _ b: Answered, _ key: String, _ state: KeyState) -> [KeyState] {
    steps(a, key, state).flatMap { steps(b, key, $0) }
  }

  private func steps(_ one: Answered, _ key: String, _ state: KeyState) -> [KeyState] {
    // A second collector leaves everything to the first.
    if case .collect = one.operation, one.result.outcome == .busy { return [state] }
    // What an operation on one key answers says nothing of the others; one on all must have done it.
    let needsNoResult = one.operation.key != nil || one.result.outcome == .done
    return OperationModel.steps(one.operation, on: key, in: state, isDisturbed: true)
      .filter { step in step.result.map { $0 == one.result.essence } ?? needsNoResult }
      .map(\.state)
  }

  private func described(_ found: [String], _ call: Int) -> [String] {
    found.map { "\(first): held at call \(call) for \(second): \($0)" }
  }

  // MARK: - A holder that does not go on

  /// The first operation stops at a call, then dies there or goes on; meanwhile a load and the second operation run.
  func checkStopped(at call: Int, thenKill: Bool) throws -> [String] {
    let workspace = try Workspace()
    try directories.copy(first.start, to: workspace.path("cache"))
    let settings = first.settings(workspace.path("cache"))
    let before = try DirectoryState(inspecting: settings)[Scenario.subject]
    let load = FaultOperation.load(Scenario.subject, touching: true)
    let lines = [load, second].enumerated().map { index, operation in
      TracedRun.shellLine(
        TracedRun.probe(
          Scenario(operation: operation, start: first.start, durability: first.durability), workspace,
          result: TracedRun.otherResult(workspace, index), timeoutMilliseconds: Self.deadlineMilliseconds,
          plant: index == 0 ? secondPlant : nil))
    }
    let fault = Fault(
      call: call, kind: .hold(other: lines.joined(separator: "; "), untilEnd: true, thenKill: thenKill))
    let run = try TracedRun(first, fault, in: workspace, plant: firstPlant, others: 2)
    let after = try DirectoryState(inspecting: settings)[Scenario.subject]
    var found: [String] = []
    if run.end.timedOut { found.append("timed out") }
    guard let loaded = run.others[0], let changed = run.others[1] else {
      return described(found + ["no report of the others: \(run.end)"], call)
    }
    // Half done or not, the first operation has taken effect by then or it has not.
    let done = OperationModel.steps(first.operation, on: Scenario.subject, in: before, isDisturbed: true)
    let midway = [before] + done.map(\.state)
    let answers = midway.flatMap {
      OperationModel.steps(load, on: Scenario.subject, in: $0, isDisturbed: true).map(\.result)
    }
    if !answers.contains(loaded.result.essence) { found.append("a load answers \(loaded.result)") }
    // A load that waited would wait for as long as the first operation is held: for ever.
    let deadline = Double(Self.deadlineMilliseconds) / 1000
    if loaded.seconds > 1 { found.append("a load takes \(loaded.seconds) s") }
    // Generous above, for a machine that has other things to do.
    switch changed.result.outcome {
    case .busy where changed.seconds < deadline: found.append("busy after only \(changed.seconds) s")
    case .busy where changed.seconds > deadline + 2: found.append("busy only after \(changed.seconds) s")
    case .failed: found.append("\(second) answers \(changed.result)")
    default: break
    }
    let second: Answered = (second, changed.result)
    let firstResult = run.report?.result
    var possible: [KeyState] = []
    if let firstResult {
      possible = ordersUnlessBusy((first.operation, firstResult), second, before)
    } else {
      // Killed: it is done, or it is not, before or after the second.
      for result in done.map(\.result) {
        possible += ordersUnlessBusy((first.operation, result ?? OperationResult(.done)), second, before)
      }
      possible += changed.result.outcome == .busy ? [before] : steps(second, Scenario.subject, before)
    }
    possible += possible.flatMap {
      OperationModel.steps(load, on: Scenario.subject, in: $0, isDisturbed: true).map(\.state)
    }
    if !possible.contains(after) { found.append("was \(before), is \(after), results \(changed.result.essence)") }
    // Nobody holds anything now.
    let follower = FaultOperation.store(Scenario.subject, PayloadName("sequel", 700))
    var patient = settings
    patient.durability = .none
    patient.lockTimeout = .milliseconds(500)
    let followed = follower.run(patient)
    if followed.outcome != .done { found.append("then \(follower): \(followed)") }
    return described(found, call)
  }

  private func ordersUnlessBusy(_ a: Answered, _ b: Answered, _ state: KeyState) -> [KeyState] {
    if b.result.outcome == .busy { return steps(a, Scenario.subject, state) }
    return orders(a, b, Scenario.subject, state) + orders(b, a, Scenario.subject, state)
  }
}

extension [TracedRun.Call] {
  /// Calls before which another operation makes a difference. Without closes, and without looks at a status that no
  /// operation changes.
  var decisive: [TracedRun.Call] {
    filter { call in
      switch call.effect {
      case "look": call.name.hasPrefix("openat") && call.path != "" && call.path != ".blobcache"
      default: true
      }
    }
  }
}
