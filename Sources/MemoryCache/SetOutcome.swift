/// What became of a value that was set, and what is to be done outside the lock.
@usableFromInline
struct SetOutcome: Sendable {
  @usableFromInline let isKept: Bool
  /// Whether the shard has grown by so much that it is time to see whether there is memory for it.
  @usableFromInline let hasGrown: Bool

  @inlinable
  init(isKept: Bool, hasGrown: Bool = false) {
    self.isKept = isKept
    self.hasGrown = hasGrown
  }
}
