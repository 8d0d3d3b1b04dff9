/// What must be so for a store to take effect. It is looked at when nobody else can change the key.
package struct StoreCondition: Sendable {
  /// The key's generation must still be this one; nil where there was none.
  package let generation: UInt64?
  /// Whether the caller still wants the store.
  package let isWanted: @Sendable () -> Bool

  package init(generation: UInt64?, isWanted: @escaping @Sendable () -> Bool) {
    self.generation = generation
    self.isWanted = isWanted
  }

  func holds(in current: UInt64?) -> Bool { current == generation && isWanted() }
}

/// The condition of a store does not hold, and nothing is stored.
struct ConditionFailed: Error {}
