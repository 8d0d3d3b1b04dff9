protocol PendingChange: Sendable {
  /// The bytes by which the change counts towards a limit; 0 for a change without bytes.
  var byteCost: Int { get }
}

/// The latest pending change of each key, in order, and the changes that are in progress.
///
/// It is a value, which its owner protects by a lock. Invariants: of each key, at most one change is pending and at
/// most one is in progress; a key whose change is in progress keeps its place in the order for the pending one.
struct LatestByKey<Key: Hashable & Sendable, Change: PendingChange>: Sendable {
  private struct Pending {
    let change: Change
    let number: UInt64
  }

  private var pending: [Key: Pending] = [:]
  private(set) var inProgress: [Key: Change] = [:]
  /// The keys of changes with bytes, and of changes without bytes.
  private var (costly, free) = (KeyQueue<Key>(), KeyQueue<Key>())
  private var nextNumber: UInt64 = 0
  private(set) var (pendingCost, inProgressCost) = (0, 0)

  init() {}

  var count: Int { pending.count + inProgress.count }
  var isEmpty: Bool { count == 0 }
  var freeCount: Int { free.count }
  var hasPending: Bool { !pending.isEmpty }
  var pendingKeys: [Key] { Array(pending.keys) }
  var keys: Set<Key> { Set(pending.keys).union(inProgress.keys) }

  func pendingChange(of key: Key) -> Change? { pending[key]?.change }
  func latest(of key: Key) -> Change? { pending[key]?.change ?? inProgress[key] }
  func has(_ key: Key) -> Bool { pending[key] != nil || inProgress[key] != nil }
}

// MARK: - Pending changes

extension LatestByKey {
  /// Adds a change, which replaces the pending one of its key, and takes its place in the order if `keepsPlace` is set.
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

  mutating func take(_ key: Key) -> Change? {
    guard let taken = pending.removeValue(forKey: key) else { return nil }
    if taken.change.byteCost > 0 { costly.remove(taken.number) } else { free.remove(taken.number) }
    pendingCost -= taken.change.byteCost
    return taken.change
  }

  mutating func oldest(isCostly: Bool) -> Key? {
    (isCostly ? costly.first { _ in true } : free.first { _ in true })?.key
  }
}

// MARK: - Changes in progress

extension LatestByKey {
  /// Returns the key of the oldest pending change whose key has no change in progress and satisfies `isFree`.
  mutating func next(where isFree: (Key) -> Bool = { _ in true }) -> Key? {
    let inProgress = inProgress
    func canBegin(_ key: Key) -> Bool { inProgress[key] == nil && isFree(key) }
    let (first, second) = (costly.first(where: canBegin), free.first(where: canBegin))
    guard let first, let second else { return first?.key ?? second?.key }
    return first.number < second.number ? first.key : second.key
  }

  mutating func begin(_ key: Key) -> Change? {
    guard let change = take(key) else { return nil }
    inProgress[key] = change
    inProgressCost += change.byteCost
    return change
  }

  @discardableResult
  mutating func end(_ key: Key) -> Change? {
    guard let change = inProgress.removeValue(forKey: key) else { return nil }
    inProgressCost -= change.byteCost
    return change
  }
}

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

  /// - Complexity: O(*n*) for *n* numbers before the result, including removed keys; O(*k* log *k*) for *k* keys if far
  ///   more numbers than keys remain, because an early key stays.
  mutating func first(where isIncluded: (Key) -> Bool) -> (key: Key, number: UInt64)? {
    while start < end, keys[start] == nil { start += 1 }
    if (end - start) / 16 > keys.count {
      for (number, key) in keys.sorted(by: { $0.key < $1.key }) where isIncluded(key) { return (key, number) }
      return nil
    }
    var number = start
    while number < end {
      if let key = keys[number], isIncluded(key) { return (key, number) }
      number += 1
    }
    return nil
  }
}
