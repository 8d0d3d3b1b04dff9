/// The guarantees between machines, checked against a history of concurrent clients: Spec/Remote.md.
///
/// Overlapping operations may have happened in either order, so each rule covers only operations that do not overlap.
struct FleetOracle {
  typealias Operation = FleetHistory.Operation

  /// The conditions of the history.
  struct Conditions {
    /// A Boolean value that indicates whether a put returns after its upload.
    var writesThrough: Bool
    /// A Boolean value that indicates whether the engine has failed, so that changes may be dropped or arrive late.
    var isTroubled: Bool
  }

  private let record: FleetHistory.Record
  private let conditions: Conditions
  private let byKey: [Int: [Operation]]

  init(_ record: FleetHistory.Record, _ conditions: Conditions) {
    self.record = record
    self.conditions = conditions
    byKey = Dictionary(grouping: record.operations, by: \.key)
  }

  /// - Parameter last: The gets of a node without copies, after all changes have arrived.
  /// - Returns: A sentence for each response that violates a guarantee.
  func violations(last: [Operation] = []) -> [String] {
    record.mistakes
      + record.unanswered.filter { !isRestarted($0.node, $0.start, $0.end) }.map { "\($0): there is no answer" }
      + record.operations.compactMap { operation in
        guard case .get(let found) = operation.kind else { return nil }
        return violation(operation, found).map { "\(operation): \($0)" }
      }
      + last.compactMap { operation in
        guard case .get(let found) = operation.kind else { return nil }
        return finalViolation(operation, found).map { "\(operation), the last: \($0)" }
      }
  }

  private func violation(_ get: Operation, _ found: Int?) -> String? {
    let all = byKey[get.key] ?? []
    let here = all.filter { $0.node == get.node }
    let ownPuts = here.filter { $0.isPut && $0.end < get.start }
    if let copy = replacedCopy(get, found, here) { return "\(copy) has found another" }
    guard let found else {
      if let lost = ownPuts.first(where: { put in !here.contains { $0.isRemoval && $0.mayLie(between: put, and: get) } }
      ) {
        return "\(lost) is lost"
      }
      return conditions.writesThrough ? missedPut(get, all).map { "\($0) is not shared" } : nil
    }
    guard let source = all.first(where: { $0.kind == .put(found) && $0.start < get.end }) else {
      return "it was never put there"
    }
    let later = ownPuts.first { put in
      put.start > source.end && !here.contains { $0.isRemoval && $0.mayLie(between: put, and: get) }
    }
    if let later { return "it is older than \(later)" }
    return returned(get, source, here).map { "it was removed by \($0)" }
  }

  /// A copy is constant until a change at its node: T12.
  private func replacedCopy(_ get: Operation, _ found: Int?, _ here: [Operation]) -> Operation? {
    here.first { earlier in
      guard case .get(let copy?) = earlier.kind, copy != found, earlier.end < get.start else { return false }
      return !here.contains { $0.isChange && $0.mayLie(between: earlier, and: get) }
        && !isRestarted(get.node, earlier.start, get.end)
    }
  }

  /// A node does not return a blob that it has removed, unless it was killed before the engine was notified: T7.
  private func returned(_ get: Operation, _ source: Operation, _ here: [Operation]) -> Operation? {
    guard !conditions.isTroubled, conditions.writesThrough || source.node == get.node else { return nil }
    return here.first { removal in
      removal.isRemoval && removal.start > source.end && removal.end < get.start
        && !isRestarted(get.node, removal.start, get.end)
    }
  }

  /// Every node finds the engine's objects, unless it remembers their absence: T6.
  private func missedPut(_ get: Operation, _ all: [Operation]) -> Operation? {
    guard !conditions.isTroubled,
      !all.contains(where: { $0.node == get.node && $0.kind == .get(nil) && $0 != get && $0.start < get.end })
    else { return nil }
    return all.first { put in
      put.isPut && put.end < get.start && !all.contains { mayRemove($0, put) && $0.start < get.end }
    }
  }

  /// The engine has the last change of one of the nodes.
  private func finalViolation(_ get: Operation, _ found: Int?) -> String? {
    let changes = (byKey[get.key] ?? []).filter(\.isChange)
    if let found {
      guard let source = changes.first(where: { $0.kind == .put(found) }) else { return "it was never put there" }
      guard !conditions.isTroubled else { return nil }
      return changes.first { supersedes($0, source) }.map { "it is older than \($0)" }
    }
    guard !conditions.isTroubled else { return nil }
    let kept = changes.first { put in
      put.isPut && put.end != .max && !changes.contains { mayRemove($0, put) }
        && (conditions.writesThrough || !isRestarted(put.node, put.start, .max))
    }
    return kept.map { "\($0) is lost" }
  }

  /// Returns whether a removal may have reached the engine after a put, because it is acknowledged before it is sent.
  private func mayRemove(_ removal: Operation, _ put: Operation) -> Bool {
    removal.isRemoval && (removal.node != put.node || removal.end > put.start)
  }

  /// Returns whether a change certainly reached the engine after another one.
  private func supersedes(_ later: Operation, _ earlier: Operation) -> Bool {
    guard later.start > earlier.end, later.end != .max else { return false }
    let isThere = conditions.writesThrough && later.isPut
    let wasThere = conditions.writesThrough && earlier.isPut
    return (later.node == earlier.node || wasThere) && (isThere || !isRestarted(later.node, later.start, .max))
  }

  private func isRestarted(_ node: Int, _ start: Int, _ end: Int) -> Bool {
    record.restarts.contains { $0.node == node && $0.end > start && $0.start < end }
  }
}

extension FleetHistory.Operation {
  fileprivate var isPut: Bool {
    if case .put = kind { true } else { false }
  }
  fileprivate var isRemoval: Bool { kind == .remove }
  fileprivate var isChange: Bool { isPut || isRemoval }

  /// Returns whether the operation may have taken effect after one operation and before another.
  fileprivate func mayLie(between first: Self, and last: Self) -> Bool { end > first.start && start < last.end }
}
