internal import BlobStore

/// The documented effects of the operations on one key at `StoreSettings.standardTime`, implemented without the
/// library.
public enum OperationModel {
  public struct Step: Hashable, Sendable {
    public var state: KeyState
    /// The result, or `nil` if the operation is on many keys and its result does not depend on this key.
    public var result: OperationResult?

    public init(state: KeyState, result: OperationResult?) {
      self.state = state
      self.result = result
    }
  }

  /// Returns the states and results that an operation on a key may have, with the usual one first.
  ///
  /// - Parameter isDisturbed: A Boolean value that indicates whether another operation or a fault occurs. Then a load
  ///   may not update the time of use, and an eviction may keep records that changed after it read them.
  public static func steps(
    _ operation: FaultOperation, on key: String, in state: KeyState, isDisturbed: Bool
  ) -> [Step] {
    func same(_ outcome: OperationResult.Outcome? = nil) -> [Step] {
      [Step(state: state, result: outcome.map { OperationResult($0) })]
    }
    func concerns(_ other: String) -> Bool { key == other }
    switch operation {
    case .store(let target, let payload, let policy), .storePieces(let target, let payload, let policy):
      guard concerns(target) else { return same() }
      return [stored(payload, policy, over: state)]
    case .storeVisibly(let target, let payload, let policy):
      guard concerns(target) else { return same() }
      // If it is interrupted, it leaves no record or a stream without a writer, which a collection removes.
      let half = [KeyState.absent, .abandoned].map { Step(state: $0, result: nil) }
      return [stored(payload, policy, over: state)] + (isDisturbed ? half : [])
    case .storeAtLimit(let target, let payload):
      // The eviction that a store starts keeps the stored record.
      return concerns(target)
        ? steps(.store(target, payload), on: key, in: state, isDisturbed: isDisturbed)
        : steps(.collect(evicting: true), on: key, in: state, isDisturbed: isDisturbed)
    case .load(let target, let touching):
      guard concerns(target) else { return same() }
      if isDamaged(state) { return same(.damaged) }
      guard isLive(state), case .record(let payload, _, _, _) = state else { return same(.notFound) }
      let result = OperationResult(.done, payload: payload)
      let touched = Step(state: touched(state), result: result)
      let untouched = Step(state: state, result: result)
      return touching ? (isDisturbed ? [touched, untouched] : [touched]) : [untouched]
    case .touch(let target):
      guard concerns(target) else { return same() }
      if isDamaged(state) { return same(.damaged) }
      guard isLive(state) else { return same(.notFound) }
      return [Step(state: touched(state), result: OperationResult(.done))]
    case .lock(let target):
      guard concerns(target) else { return same() }
      if isDamaged(state) { return same(.damaged) }
      guard isLive(state) else { return same(.notFound) }
      return [Step(state: withLocks(locks(state) + 1, state), result: OperationResult(.done))]
    case .unlock(let target, let force):
      guard concerns(target) else { return same() }
      if isDamaged(state) { return same(.damaged) }
      guard isLive(state) else { return same(.notFound) }
      guard locks(state) > 0 else { return same(.notLocked) }
      return [Step(state: withLocks(force ? 0 : locks(state) - 1, state), result: OperationResult(.done))]
    case .remove(let target):
      guard concerns(target) else { return same() }
      return [Step(state: .absent, result: OperationResult(state == .absent ? .notFound : .done))]
    case .removeAll(let scope):
      let isRemoved =
        switch scope {
        case .all: true
        case .locked: locks(state) > 0
        case .unlocked: locks(state) == 0 && !isDamaged(state)
        }
      return isRemoved ? [Step(state: .absent, result: nil)] : same()
    case .collect(let evicting):
      // A damaged file stays until it is old. The files in these tests are not.
      if state == .damaged || locks(state) > 0 { return same() }
      if state == .abandoned { return [Step(state: .absent, result: nil)] }
      guard evicting || !isLive(state) else { return same() }
      return [Step(state: .absent, result: nil)] + (isDisturbed ? same() : [])
    case .verify: return same()
    case .quarantine(let target):
      guard concerns(target), isDamaged(state) else {
        return steps(.load(target, touching: false), on: key, in: state, isDisturbed: isDisturbed)
      }
      return [Step(state: .absent, result: OperationResult(.damaged))] + (isDisturbed ? same(.damaged) : [])
    }
  }

  private static func stored(_ payload: PayloadName, _ policy: BlobStore.LockPolicy, over state: KeyState) -> Step {
    let kept = [.keep, .keepOrOne].contains(policy) ? locks(state) : 0
    return Step(
      state: .record(
        payload: payload.digest, refCount: max(kept, [.one, .keepOrOne].contains(policy) ? 1 : 0), ttl: 0,
        updateTime: UInt64(StoreSettings.standardTime)),
      result: OperationResult(.done))
  }

  private static func isDamaged(_ state: KeyState) -> Bool { state == .damaged || state == .abandoned }

  static func locks(_ state: KeyState) -> UInt32 {
    if case .record(_, let refCount, _, _) = state { refCount } else { 0 }
  }

  private static func withLocks(_ locks: UInt32, _ state: KeyState) -> KeyState {
    guard case .record(let payload, _, let ttl, let updateTime) = state else { return state }
    return .record(payload: payload, refCount: locks, ttl: ttl, updateTime: updateTime)
  }

  private static func touched(_ state: KeyState) -> KeyState {
    guard case .record(let payload, let locks, 0, _) = state else { return state }
    return .record(payload: payload, refCount: locks, ttl: 0, updateTime: UInt64(StoreSettings.standardTime))
  }

  private static func isLive(_ state: KeyState) -> Bool {
    guard case .record(_, let locks, let ttl, let updateTime) = state else { return false }
    return locks > 0 || StoreSettings.standardTime - Int64(updateTime) <= (ttl > 0 ? Int64(ttl) : 600)
  }
}

extension FaultOperation {
  /// The key of an operation on one key, which takes effect at a single call.
  public var key: String? {
    switch self {
    case .store(let key, _, _), .storePieces(let key, _, _), .storeVisibly(let key, _, _), .storeAtLimit(let key, _),
      .load(let key, _),
      .touch(let key), .lock(let key),
      .unlock(let key, _), .remove(let key), .quarantine(let key):
      key
    case .removeAll, .collect, .verify: nil
    }
  }
}

extension OperationResult {
  /// The result without the message.
  public var essence: OperationResult { OperationResult(outcome, payload: payload) }
}
