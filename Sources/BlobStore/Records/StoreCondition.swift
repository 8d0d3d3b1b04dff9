/// The condition under which a store takes effect, judged under the key's stripe.
package struct StoreCondition: Sendable {
  /// The key's history must still be this one.
  private var history: KeyHistory
  /// Whether the caller still wants the store.
  package let isWanted: @Sendable () -> Bool

  package init(history: KeyHistory, isWanted: @escaping @Sendable () -> Bool) {
    self.history = history
    self.isWanted = isWanted
  }

  package func holds(in current: KeyHistory) -> Bool { current == history && isWanted() }

  /// The store has changed the generation itself.
  mutating func noteOwnChange(_ generation: UInt64?) { history.generation = generation }

  /// Whether it still holds after the store, which has changed the generation itself.
  func stillHolds(in current: KeyHistory) -> Bool { current.wipes == history.wipes && isWanted() }
}

/// The condition of a store does not hold, and nothing is stored.
struct ConditionFailed: Error {}
