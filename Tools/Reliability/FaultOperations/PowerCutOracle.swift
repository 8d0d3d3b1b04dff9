public import BlobStore

/// What may be found after a power cut, by what has been asked for and answered until then. Lives outside of the volume
/// that loses power.
///
/// For each key it remembers the states since the last one that the durability promises to keep. Written from
/// Spec/Semantics.md, D, without the library.
public struct PowerCutOracle: Sendable {
  private struct History {
    /// As the operations left it.
    var current: KeyState
    /// What may be found: the last state that must be on the medium, and those after it.
    var possible: Set<KeyState>
    /// Whether a store or a removal without durability came after it. Then the record may be missing, damaged, or a
    /// blob of that time with any header. After a removal it may be back, and its file may have been overwritten with
    /// another blob.
    var mayMiss = false
    /// Whether a collection that moves the record in packs leaves it to the system when that is on the medium.
    var movesWithoutSync = false

    var latestUse: UInt64 { possible.compactMap(\.timeOfUse).max() ?? 0 }
  }

  public let durability: BlobStore.Durability
  /// Whether small records lie in packs. Then their times of use may lie in an index that does not outlast a boot, and a
  /// collection may move them.
  public let packs: Bool
  private var histories: [String: History] = [:]
  /// The payloads of each key since the last state that the durability promises to keep.
  private var stored: [String: Set<String>] = [:]

  /// - Parameters:
  ///   - state: what is on the medium; stored without durability, unless it is locked.
  ///   - packs: whether small records lie in packs.
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

  // MARK: - What happens

  /// An operation begins, and may from now on be found half done.
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

  /// An operation has answered.
  ///
  /// - Returns: what is wrong with the answer.
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

  // MARK: - What is found

  /// - Returns: what a power cut must not have left.
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
  /// Whether `full` is a promise about it: stores, removals and locks. Touches and collections may be undone.
  fileprivate var isPromised: Bool {
    switch self {
    case .store, .storePieces, .storeVisibly, .storeAtLimit, .remove, .removeAll, .lock, .unlock: true
    case .touch, .load, .collect, .verify, .quarantine: false
    }
  }

  /// Whether records in packs may have another place after it.
  fileprivate var movesRecords: Bool {
    switch self {
    case .collect, .storeAtLimit: true
    default: false
    }
  }

  /// Whether it puts a new file in the place of this key's: even one that is the same to the eye.
  fileprivate func writes(_ other: String) -> Bool {
    switch self {
    case .store(let key, _, _), .storePieces(let key, _, _), .storeVisibly(let key, _, _), .storeAtLimit(let key, _):
      key == other
    default: false
    }
  }
}
