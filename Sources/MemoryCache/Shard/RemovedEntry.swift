public import Dispatch

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

/// The result of setting a value, with the work that remains outside the lock.
@usableFromInline
struct SetOutcome: Sendable {
  @usableFromInline let isKept: Bool
  /// Whether the shard has grown enough for a look at the memory that is left.
  @usableFromInline let hasGrown: Bool
  /// Whether the limits hold. More has to leave than does under one hold of the lock, if not.
  @usableFromInline let isWithinLimits: Bool
  /// The entry that was set.
  @usableFromInline let entry: SparedEntry

  @inlinable
  init(isKept: Bool, hasGrown: Bool, isWithinLimits: Bool, entry: SparedEntry) {
    self.isKept = isKept
    self.hasGrown = hasGrown
    self.isWithinLimits = isWithinLimits
    self.entry = entry
  }

  @inlinable
  static var rejected: SetOutcome {
    SetOutcome(isKept: false, hasGrown: false, isWithinLimits: true, entry: .none)
  }
}

/// An entry that is not evicted. Its slot may be another's by now, its serial number never is.
@usableFromInline
struct SparedEntry: Sendable {
  @usableFromInline let slot: Slot
  @usableFromInline let serial: UInt64

  @inlinable
  init(slot: Slot, serial: UInt64) {
    self.slot = slot
    self.serial = serial
  }

  @inlinable
  static var none: SparedEntry { SparedEntry(slot: 0, serial: 0) }
}

/// The only reference to what a queue must release.
///
/// A closure that captured it might be the last to be destroyed on the thread that made it.
@usableFromInline
final class ReleaseParcel<Content: ~Copyable & Sendable>: Sendable {
  private let content: Content

  private init(_ content: consuming Content) { self.content = content }

  @usableFromInline
  static func send(_ content: consuming Content, to queue: DispatchQueue) {
    let parcel = unsafe Unmanaged.passRetained(ReleaseParcel(content))
    queue.async { unsafe parcel.release() }
  }
}
