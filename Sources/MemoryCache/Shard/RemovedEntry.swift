public import Dispatch

/// The reason why an entry was removed from a `MemoryCache`.
public enum RemovalCause: String, CaseIterable, Sendable {
  /// The entry was removed by its key or by a predicate.
  case explicit
  /// Another value was set for the key, even if that value was not kept.
  case replaced
  /// The lifetime was over, or the entry was unused for too long.
  case expired
  /// The entry was evicted for a limit, for a trim, or under memory pressure.
  case evicted
  /// All entries were removed.
  case cleared
}

/// An entry that was removed from a `MemoryCache`.
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

/// The entries that one operation removes, to be reported and released outside the lock.
///
/// A single entry, the usual case, needs no allocation. The type is not copyable, so that no other code keeps a
/// reference to a value that a queue must release.
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

@usableFromInline
struct SetOutcome: Sendable {
  @usableFromInline let isKept: Bool
  /// A Boolean value that indicates whether the shard has grown enough for a check of the available memory.
  @usableFromInline let hasGrown: Bool
  /// A Boolean value that indicates whether the limits hold; otherwise more than one chunk has to be evicted.
  @usableFromInline let isWithinLimits: Bool
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

/// An entry that must not be evicted. Its slot may be reused, but its serial number is unique.
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

/// The only reference to content that a queue must release.
///
/// A closure that captured the content itself could be released last on the thread that created it.
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
