/// A change that waits in a `LatestByKey`.
protocol PendingChange: Sendable {
  /// The bytes by which the change counts towards a limit; 0 for one that holds none.
  var byteCost: Int { get }
}

/// The latest pending change of each key, in order, and the changes that are in progress.
///
/// It is a value, which its owner keeps under a lock. Invariants: of each key, at most one change is pending and at most one
/// is in progress; a key whose change is in progress keeps its place in the order for the pending one.
struct LatestByKey<Key: Hashable & Sendable, Change: PendingChange>: Sendable {
  private struct Pending {
    let change: Change
    /// Its place in the order.
    let number: UInt64
  }

  private var pending: [Key: Pending] = [:]
  private(set) var inProgress: [Key: Change] = [:]
  /// The keys of changes that hold bytes, and of those that hold none.
  private var (costly, free) = (KeyQueue<Key>(), KeyQueue<Key>())
  private var nextNumber: UInt64 = 0
  /// The bytes of the pending changes, and of those in progress.
  private(set) var (pendingCost, inProgressCost) = (0, 0)

  init() {}

  /// The number of changes that are pending or in progress.
  var count: Int { pending.count + inProgress.count }
  var isEmpty: Bool { count == 0 }
  /// The number of pending changes that hold no bytes.
  var freeCount: Int { free.count }
  var hasPending: Bool { !pending.isEmpty }
  var pendingKeys: [Key] { Array(pending.keys) }
  /// The keys of changes that are pending or in progress.
  var keys: Set<Key> { Set(pending.keys).union(inProgress.keys) }

  func pendingChange(of key: Key) -> Change? { pending[key]?.change }
  /// The change of a key that was added last.
  func latest(of key: Key) -> Change? { pending[key]?.change ?? inProgress[key] }
  func has(_ key: Key) -> Bool { pending[key] != nil || inProgress[key] != nil }
}

// MARK: - Pending changes

extension LatestByKey {
  /// Adds a change, in the place of the key's pending one.
  ///
  /// - Parameter keepsPlace: whether it takes the place in the order of the change that it replaces.
  mutating func put(_ change: Change, for key: Key, keepsPlace: Bool) {
    let place = keepsPlace ? pending[key]?.number : nil
    _ = take(key)
    let number = place ?? nextNumber
    if place == nil { nextNumber += 1 }
    pending[key] = Pending(change: change, number: number)
    pendingCost += change.byteCost
    line(key, number, isCostly: change.byteCost > 0)
  }

  private mutating func line(_ key: Key, _ number: UInt64, isCostly: Bool) {
    if isCostly { costly.insert(key, number) } else { free.insert(key, number) }
  }

  /// Takes a pending change out.
  mutating func take(_ key: Key) -> Change? {
    guard let taken = pending.removeValue(forKey: key) else { return nil }
    if taken.change.byteCost > 0 { costly.remove(taken.number) } else { free.remove(taken.number) }
    pendingCost -= taken.change.byteCost
    return taken.change
  }

  /// The key of the pending change that came first, of those that hold bytes, or of those that hold none.
  mutating func oldest(isCostly: Bool) -> Key? {
    (isCostly ? costly.first { _ in true } : free.first { _ in true })?.key
  }
}

// MARK: - Changes in progress

extension LatestByKey {
  /// The key of the pending change that came first, of those whose key has no change in progress.
  ///
  /// - Parameter isFree: whether the change of a key can begin now.
  mutating func next(where isFree: (Key) -> Bool = { _ in true }) -> Key? {
    let inProgress = inProgress
    func canBegin(_ key: Key) -> Bool { inProgress[key] == nil && isFree(key) }
    let (first, second) = (costly.first(where: canBegin), free.first(where: canBegin))
    guard let first, let second else { return first?.key ?? second?.key }
    return first.number < second.number ? first.key : second.key
  }

  /// Begins the pending change of a key, of which none is in progress.
  mutating func begin(_ key: Key) -> Change? {
    guard let change = take(key) else { return nil }
    inProgress[key] = change
    inProgressCost += change.byteCost
    return change
  }

  /// Ends the change of a key that is in progress.
  @discardableResult
  mutating func end(_ key: Key) -> Change? {
    guard let change = inProgress.removeValue(forKey: key) else { return nil }
    inProgressCost -= change.byteCost
    return change
  }
}

/// Keys in the order in which they came.
private struct KeyQueue<Key: Sendable>: Sendable {
  private var keys: [UInt64: Key] = [:]
  private var (start, end): (UInt64, UInt64) = (0, 0)

  init() {}

  var count: Int { keys.count }

  mutating func insert(_ key: Key, _ number: UInt64) {
    (start, end) = keys.isEmpty ? (number, number + 1) : (min(start, number), max(end, number + 1))
    keys[number] = key
  }

  mutating func remove(_ number: UInt64) { keys[number] = nil }

  /// - Complexity: O(*n*) for *n* keys that come before it, and the gaps between them.
  mutating func first(where isIncluded: (Key) -> Bool) -> (key: Key, number: UInt64)? {
    while start < end, keys[start] == nil { start += 1 }
    var number = start
    while number < end {
      if let key = keys[number], isIncluded(key) { return (key, number) }
      number += 1
    }
    return nil
  }
}
