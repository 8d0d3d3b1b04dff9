import BlobStore
import FaultOperations
import Foundation

/// Holds one operation at a call while another runs, and reports violations afterwards.
struct InterleavingChecker {
  let first: Scenario
  let second: FaultOperation
  let directories: StartDirectories
  var firstPlant: String?
  var secondPlant: String?

  /// The lock timeout of the second operation, in case the first one continues only after it has ended.
  static let deadlineMilliseconds = 60

  /// Returns the calls of the first operation when it runs without the second.
  func calls() throws -> [TracedRun.Call] {
    let workspace = try Workspace()
    try directories.copy(first.start, to: workspace.path("cache"))
    return try TracedRun(first, .none, in: workspace, plant: firstPlant, listsCalls: true).calls
  }

  // MARK: - Serial orders

  /// Holds the first operation until the second has ended or waits, and then continues it. The outcome must equal one
  /// of the serial orders, including the results.
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

  /// An operation and its reported result.
  private typealias Answered = (operation: FaultOperation, result: OperationResult)

  /// Returns the states in which a key may end, considering the results of both operations.
  private func orders(_ a: Answered, _ b: Answered, _ key: String, _ state: KeyState) -> [KeyState] {
    steps(a, key, state).flatMap { steps(b, key, $0) }
  }

  private func steps(_ one: Answered, _ key: String, _ state: KeyState) -> [KeyState] {
    // A second collector leaves the work to the first.
    if case .collect = one.operation, one.result.outcome == .busy { return [state] }
    // An operation on one key does not report on other keys; an operation on all keys must report success.
    let needsNoResult = one.operation.key != nil || one.result.outcome == .done
    return OperationModel.steps(one.operation, on: key, in: state, isDisturbed: true)
      .filter { step in step.result.map { $0 == one.result.essence } ?? needsNoResult }
      .map(\.state)
  }

  private func described(_ found: [String], _ call: Int) -> [String] {
    found.map { "\(first): held at call \(call) for \(second): \($0)" }
  }

  // MARK: - A holder that does not go on

  /// Stops the first operation at a call, runs a load and the second operation, and kills or continues the first one.
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
    // The first operation has either taken effect by then or not, even if it is unfinished.
    let done = OperationModel.steps(first.operation, on: Scenario.subject, in: before, isDisturbed: true)
    let midway = [before] + done.map(\.state)
    let answers = midway.flatMap {
      OperationModel.steps(load, on: Scenario.subject, in: $0, isDisturbed: true).map(\.result)
    }
    if !answers.contains(loaded.result.essence) { found.append("a load answers \(loaded.result)") }
    // A load that waited would wait forever, because the first operation is held.
    let deadline = Double(Self.deadlineMilliseconds) / 1000
    if loaded.seconds > 1 { found.append("a load takes \(loaded.seconds) s") }
    // The upper limit is generous, for a busy machine.
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
      // The killed operation has taken effect or not, before or after the second one.
      for result in done.map(\.result) {
        possible += ordersUnlessBusy((first.operation, result ?? OperationResult(.done)), second, before)
      }
      possible += changed.result.outcome == .busy ? [before] : steps(second, Scenario.subject, before)
    }
    possible += possible.flatMap {
      OperationModel.steps(load, on: Scenario.subject, in: $0, isDisturbed: true).map(\.state)
    }
    if !possible.contains(after) { found.append("was \(before), is \(after), results \(changed.result.essence)") }
    // No process holds a lock now.
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
  /// The calls before which another operation makes a difference. Closes are excluded, and so are reads of a status
  /// that no operation changes.
  var decisive: [TracedRun.Call] {
    filter { call in
      switch call.effect {
      case "look": call.name.hasPrefix("openat") && call.path != "" && call.path != ".blobcache"
      default: true
      }
    }
  }
}
