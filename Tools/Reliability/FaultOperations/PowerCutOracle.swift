public import BlobStore

/// The states that are allowed after a power cut, derived from the operations and answers before it.
///
/// The oracle is stored outside of the volume that loses power. For each key it contains all states since the last
/// guaranteed one. It implements Spec/Semantics.md, D, without the library.
public struct PowerCutOracle: Sendable {
  private struct History {
    /// The state after the operations.
    var current: KeyState
    /// The allowed states: the last state that must be on the medium, and all later ones.
    var possible: Set<KeyState>
    /// A Boolean value that indicates whether a store or a removal without durability followed. Then the record may
    /// be missing, damaged, or a blob of that time with any header. A removed record may reappear, and its file may
    /// have been overwritten with another blob.
    var mayMiss = false
    /// A Boolean value that indicates whether a collection that moves the record in packs does not sync it.
    var movesWithoutSync = false

    var latestUse: UInt64 { possible.compactMap(\.timeOfUse).max() ?? 0 }
  }

  public let durability: BlobStore.Durability
  /// A Boolean value that indicates whether small records are packed.
  ///
  /// Then a reboot may lose their times of use together with the index, and a collection may move the records.
  public let packs: Bool
  private var histories: [String: History] = [:]
  /// The payloads of each key since the last state that the durability guarantees.
  private var stored: [String: Set<String>] = [:]

  /// - Parameters:
  ///   - state: The state on the medium, which was stored without durability except for locked records.
  ///   - packs: A Boolean value that indicates whether small records are packed.
  public init(
    _ durability: BlobStore.Durability, keys: [String], on state: DirectoryState, packs: Bool = false
  ) {
    self.durability = durability
    self.packs = packs
    for key in Set(keys).union(state.keys.keys) {
      histories[key] = History(
        current: state[key], possible: [state[key]],
        movesWithoutSync: packs && OperationModel.locks(state[key]) == 0)
      note(state[key], of: key)
    }
  }

  public var keys: [String] { histories.keys.sorted() }

  public func state(of key: String) -> KeyState { histories[key]?.current ?? .absent }

  // MARK: - Operations

  /// Records the start of an operation, whose effects may be partly on the medium from then on.
  public mutating func begin(_ operation: FaultOperation) {
    for key in histories.keys {
      if operation.movesRecords, histories[key]?.movesWithoutSync == true { histories[key]?.mayMiss = true }
      for step in OperationModel.steps(operation, on: key, in: state(of: key), isDisturbed: true) {
        histories[key]?.possible.insert(step.state)
        note(step.state, of: key)
        if operation.writes(key) || step.state == .absent && state(of: key) != .absent,
          level(operation, on: key, to: step.state) == .none
        {
          histories[key]?.mayMiss = true
        }
      }
    }
  }

  /// Records the answer of an operation.
  ///
  /// - Returns: Descriptions of the mistakes in the answer.
  public mutating func end(_ operation: FaultOperation, _ result: OperationResult) -> [String] {
    var violations: [String] = []
    for key in histories.keys.sorted() {
      let before = state(of: key)
      let steps = OperationModel.steps(operation, on: key, in: before, isDisturbed: false)
      guard let step = steps.first(where: { $0.result == nil || $0.result == result.essence }) else {
        violations.append("\(operation) of \(before) answers \(result)")
        continue
      }
      histories[key]?.current = step.state
      let isChanged = step.state != before || operation.writes(key)
      if isChanged, packs, operation.isPromised {
        let isDurable = level(operation, on: key, to: step.state, from: before) != .none
        histories[key]?.movesWithoutSync = !isDurable && OperationModel.locks(step.state) == 0
      }
      if isChanged, operation.isPromised, level(operation, on: key, to: step.state, from: before) == .full {
        histories[key]?.possible = [step.state]
        histories[key]?.mayMiss = false
        stored[key] = []
        note(step.state, of: key)
      }
    }
    return violations
  }

  // MARK: - Checking

  /// - Returns: Descriptions of the states that a power cut must not leave.
  public func violations(in found: DirectoryState) -> [String] {
    var violations: [String] = []
    for key in Set(keys).union(found.keys.keys).sorted() where !allows(found[key], of: key) {
      let expected = histories[key].map { "\($0.possible)\($0.mayMiss ? " or a miss" : "")" } ?? "nothing"
      violations.append("\(durability): \(key) is \(found[key]), not \(expected)")
    }
    if !found.foreign.isEmpty { violations.append("foreign: \(found.foreign)") }
    if !found.unreadable.isEmpty { violations.append("unreadable: \(found.unreadable)") }
    return violations
  }

  private func allows(_ found: KeyState, of key: String) -> Bool {
    guard let history = histories[key] else { return false }
    if history.possible.contains(found) { return true }
    if packs, found.timeOfUse.map({ $0 <= history.latestUse }) ?? false,
      history.possible.contains(where: { $0.withoutTime == found.withoutTime })
    {
      return true
    }
    guard history.mayMiss else { return false }
    guard case .record(let payload, _, _, _) = found else { return true }
    return stored[key]?.contains(payload) ?? false
  }

  private mutating func note(_ state: KeyState, of key: String) {
    if case .record(let payload, _, _, _) = state { stored[key, default: []].insert(payload) }
  }
}

// MARK: - Durability

extension PowerCutOracle {
  private func level(
    _ operation: FaultOperation, on key: String, to after: KeyState, from before: KeyState? = nil
  ) -> BlobStore.Durability {
    guard durability == .automatic else { return durability }
    let isLocked = OperationModel.locks(after) > 0 || OperationModel.locks(before ?? state(of: key)) > 0
    switch operation {
    case .store, .storePieces, .storeVisibly, .storeAtLimit, .remove, .removeAll: return isLocked ? .full : .none
    case .lock, .unlock: return .full
    case .touch, .load, .collect, .verify, .quarantine: return .none
    }
  }
}

extension FaultOperation {
  /// A Boolean value that indicates whether `full` guarantees the operation. Touches and collections may be undone.
  fileprivate var isPromised: Bool {
    switch self {
    case .store, .storePieces, .storeVisibly, .storeAtLimit, .remove, .removeAll, .lock, .unlock: true
    case .touch, .load, .collect, .verify, .quarantine: false
    }
  }

  /// A Boolean value that indicates whether the operation may move records in packs.
  fileprivate var movesRecords: Bool {
    switch self {
    case .collect, .storeAtLimit: true
    default: false
    }
  }

  /// Returns whether the operation replaces the key's file, even with an identical one.
  fileprivate func writes(_ other: String) -> Bool {
    switch self {
    case .store(let key, _, _), .storePieces(let key, _, _), .storeVisibly(let key, _, _), .storeAtLimit(let key, _):
      key == other
    default: false
    }
  }
}
