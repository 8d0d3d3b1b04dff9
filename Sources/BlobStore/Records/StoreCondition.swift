package import BlobRecord

/// The condition under which a change takes effect, judged under the key's stripe.
package struct StoreCondition: Sendable {
  /// Judges the header of the record that a change finds, live or being written; nil for no such record.
  package typealias Judge = @Sendable (RecordHeader?) -> Bool

  /// The key's history must still be this one; nil for any.
  private var history: KeyHistory?
  /// Whether the caller still wants the store.
  package let isWanted: @Sendable () -> Bool
  /// nil where any record will do.
  private(set) var judge: Judge?

  package init(history: KeyHistory, isWanted: @escaping @Sendable () -> Bool) {
    self.history = history
    self.isWanted = isWanted
    judge = nil
  }

  /// - Parameter judge: is asked each time a change looks at the record in its place; the last answer holds.
  package init(onRecord judge: @escaping Judge) {
    self.judge = judge
    isWanted = { true }
  }

  /// This condition, and one of the record in its place.
  package func and(onRecord judge: @escaping Judge) -> StoreCondition {
    var condition = self
    condition.judge = judge
    return condition
  }

  /// Whether it is that of a production, which any other change overtakes.
  package var isOfProduction: Bool { history != nil }

  /// Whether it asks for the record in its place.
  package var isJudged: Bool { judge != nil }

  package func holds(in current: KeyHistory) -> Bool { (history == nil || current == history) && isWanted() }

  /// The store has changed the generation itself.
  mutating func noteOwnChange(_ generation: UInt64?) { history?.generation = generation }

  /// Whether it still holds after the store, which has changed the generation itself.
  func stillHolds(in current: KeyHistory) -> Bool {
    (history.map { $0.wipes == current.wipes } ?? true) && isWanted()
  }

  /// Whether a change may be made of what it has found.
  package func allows(_ found: RecordHeader?) -> Bool { judge?(found) ?? true }
}

/// The condition of a change does not hold, and nothing is changed.
struct ConditionFailed: Error {}
