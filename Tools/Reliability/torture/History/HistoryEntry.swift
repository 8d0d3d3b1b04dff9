internal import BlobStore
internal import Linearizability

/// One operation in a history file: 64 bytes, little-endian like the machines this runs on.
struct HistoryEntry {
  enum Kind: UInt8, CaseIterable {
    case load = 1, loadUntouched, header, contains, store, storeLocked, storeKeepingLocks, storeLockedKeepingLocks
    case touch, lock, unlock, remove, collect, collectToLimit, removeLocked, removeUnlocked
    /// Operations on separate keys, which `StreamCheck` checks.
    case stream, follow, loadStreamed

    var isOfStreams: Bool { self == .stream || self == .follow || self == .loadStreamed }

    /// The lock policy of a store of this kind.
    var locks: BlobStore.LockPolicy {
      switch self {
      case .storeLocked: .one
      case .storeKeepingLocks: .keep
      case .storeLockedKeepingLocks: .keepOrOne
      default: .none
      }
    }
  }

  enum Outcome: UInt8 {
    case unknown = 0
    case done, notFound, notLocked, loaded, loadedFromMemory, observed
    /// The bytes that were read are not a payload of this key.
    case mix
    case damaged, busy, failed
    /// A load by a read that never waits.
    case loadedAtOnce
    /// A stream that its writer has discarded, or that another store has replaced.
    case givenUp, superseded
    /// The error of a follower before the end.
    case broken, stalled
  }

  static let byteCount = 64
  /// The key in the entry of a collection or a wipe, which affects all keys.
  static let everyKey: UInt8 = 255

  var called: UInt64 = 0
  var returned: UInt64 = 0
  var kind: UInt8 = 0
  var key: UInt8 = 0
  var outcome: UInt8 = 0
  var ttl: UInt32 = 0
  var stored: UInt64 = 0
  var loaded: UInt64 = 0
  var refCount: UInt32 = 0
  var observedTTL: UInt32 = 0
  var updateTime: UInt32 = 0
}

extension HistoryEntry {
  /// Returns the operations of the entry for the checker. A collection to a limit consists of two operations on a
  /// key. The first removes an expired record. The second evicts, and may find a record that was stored after the
  /// first if it has to walk the directory again.
  ///
  /// - Parameters:
  ///   - ended: The latest time at which an operation that never returned can have taken effect.
  func operations(caller: String, ended: UInt64, clock: TortureClock) -> [Operation] {
    guard let operation = operation(caller: caller, ended: ended, clock: clock) else { return [] }
    let isUnknown = operation.response == .unknown
    switch operation.request {
    case .collect(let evicting):
      // An operation that removed nothing explains nothing.
      let parts = [(false, loaded > 0 || isUnknown), (true, stored > 0 || (isUnknown && evicting))]
      return parts.filter(\.1).map { part in
        var operation = operation
        operation.request = .collect(evicting: part.0)
        return operation
      }
    case .removeAll: return stored > 0 || isUnknown ? [operation] : []
    default: return [operation]
    }
  }

  private func operation(caller: String, ended: UInt64, clock: TortureClock) -> Operation? {
    guard called > 0, let kind = Kind(rawValue: kind), !kind.isOfStreams else { return nil }
    let request: Operation.Request =
      switch kind {
      case .load: .load(touching: true)
      case .loadUntouched: .load(touching: false)
      case .header: .header
      case .contains: .contains
      case .store: .store(value: stored, ttl: ttl, locked: false, keepingLocks: false)
      case .storeLocked: .store(value: stored, ttl: ttl, locked: true, keepingLocks: false)
      case .storeKeepingLocks: .store(value: stored, ttl: ttl, locked: false, keepingLocks: true)
      case .storeLockedKeepingLocks: .store(value: stored, ttl: ttl, locked: true, keepingLocks: true)
      case .touch: .touch
      case .lock: .lock
      case .unlock: .unlock
      case .remove: .remove
      case .collect: .collect(evicting: false)
      case .collectToLimit: .collect(evicting: true)
      case .removeLocked: .removeAll(locked: true)
      case .removeUnlocked: .removeAll(locked: false)
      case .stream, .follow, .loadStreamed: preconditionFailure("a stream is no operation on a register")
      }
    let observation = Operation.Observation(refCount: refCount, ttl: observedTTL, updateTime: updateTime)
    let response: Operation.Response =
      switch returned == 0 ? .unknown : Outcome(rawValue: outcome) ?? .unknown {
      case .done: .done
      case .notFound: .notFound
      case .notLocked: .notLocked
      case .loaded, .loadedAtOnce: .loaded(value: loaded, observation)
      case .loadedFromMemory: .loadedFromMemory(value: loaded)
      case .observed: .observed(observation)
      case .unknown, .mix, .damaged, .busy, .failed, .givenUp, .superseded, .broken, .stalled: .unknown
      }
    let end = returned == 0 ? ended : returned
    return Operation(
      caller: caller, request, response, called: called, returned: max(end, called),
      firstSecond: clock.second(at: called), lastSecond: clock.second(at: max(end, called)))
  }

  /// The reason that the answer is wrong in every order, if it is.
  var impossibleByItself: String? {
    guard returned > 0, let outcome = Outcome(rawValue: outcome) else { return nil }
    return switch outcome {
    case .mix: "a load returned a mix"
    case .damaged: "a record was reported damaged"
    case .busy: "an operation was told busy"
    case .failed: "an operation failed"
    default: nil
    }
  }
}
