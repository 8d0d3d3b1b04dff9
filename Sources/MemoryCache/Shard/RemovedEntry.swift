/// Why an entry left a `MemoryCache`.
public enum RemovalCause: String, CaseIterable, Sendable {
  /// It was removed by its key or by a predicate.
  case explicit
  /// Another value was set for its key; also when that value was then not kept.
  case replaced
  /// Its lifetime was over, or it was not used for too long.
  case expired
  /// It made room for a limit, for a trim, or under memory pressure.
  case evicted
  /// All was removed.
  case cleared
}

/// An entry that has left a `MemoryCache`.
public struct RemovedEntry<Key: Hashable & Sendable, Value: Sendable>: Sendable {
  public let key: Key
  public let value: Value
  public let cost: Int
  public let cause: RemovalCause

  @inlinable
  init(key: Key, value: Value, cost: Int, cause: RemovalCause) {
    self.key = key
    self.value = value
    self.cost = cost
    self.cause = cause
  }
}

/// The entries that one operation removes, on their way out of the lock.
///
/// One entry, the usual case, takes no allocation. It is not copyable, so that no other code keeps a reference to a
/// value that a queue must release.
@usableFromInline
struct Removals<Key: Hashable & Sendable, Value: Sendable>: ~Copyable, Sendable {
  @usableFromInline var first: RemovedEntry<Key, Value>?
  @usableFromInline var others: [RemovedEntry<Key, Value>] = []

  @inlinable
  init(_ first: consuming RemovedEntry<Key, Value>? = nil) { self.first = first }

  @inlinable
  var isEmpty: Bool { first == nil }

  @inlinable
  var count: Int { first == nil ? 0 : 1 + others.count }

  @inlinable
  mutating func append(_ entry: consuming RemovedEntry<Key, Value>) {
    if first == nil { first = entry } else { others.append(entry) }
  }

  @inlinable
  func forEach(_ body: (RemovedEntry<Key, Value>) -> Void) {
    if let first { body(first) }
    for other in others { body(other) }
  }
}
