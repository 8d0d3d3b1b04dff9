/// Why an entry left a `MemoryCache`.
public enum RemovalCause: String, CaseIterable, Sendable {
  /// It was removed by its key or by a predicate.
  case explicit
  /// Another value was set for its key; also when that value was then not kept.
  case replaced
  /// Its lifetime was over, or it was not used for too long.
  case expired
  /// It made room: a limit, a trim to a count or a cost, or memory pressure.
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

/// What left a cache in one operation, on its way out of the lock. One entry, the usual case, takes no allocation.
///
/// Not copyable, so that nobody keeps a reference to a value that another queue is to release.
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
