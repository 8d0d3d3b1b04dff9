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
