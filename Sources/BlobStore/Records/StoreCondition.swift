package import BlobRecord

/// A condition for a change, which is evaluated under the key's stripe.
package struct StoreCondition: Sendable {
  /// A closure that evaluates the header of the live or incomplete record that a change finds, or `nil` if none exists.
  package typealias Judge = @Sendable (RecordHeader?) -> Bool

  /// The history that the key must still have, or `nil` for any.
  private var history: KeyHistory?
  /// A closure that returns `false` if the caller no longer wants the store.
  package let isWanted: @Sendable () -> Bool
  /// `nil` if the condition does not depend on the record.
  private(set) var judge: Judge?

  package init(history: KeyHistory, isWanted: @escaping @Sendable () -> Bool) {
    self.history = history
    self.isWanted = isWanted
    judge = nil
  }

  /// - Parameter judge: A closure that is called for each lookup of the record; its last result counts.
  package init(onRecord judge: @escaping Judge) {
    self.judge = judge
    isWanted = { true }
  }

  package func and(onRecord judge: @escaping Judge) -> StoreCondition {
    var condition = self
    condition.judge = judge
    return condition
  }

  /// A Boolean value that indicates whether the condition belongs to a production, which any other change supersedes.
  package var isOfProduction: Bool { history != nil }

  package var isJudged: Bool { judge != nil }

  package func holds(in current: KeyHistory) -> Bool { (history == nil || current == history) && isWanted() }

  /// Updates the history after the store itself has changed the generation.
  mutating func noteOwnChange(_ generation: UInt64?) { history?.generation = generation }

  /// Evaluates the condition after the store itself has changed the generation.
  func stillHolds(in current: KeyHistory) -> Bool {
    (history.map { $0.wipes == current.wipes } ?? true) && isWanted()
  }

  package func allows(_ found: RecordHeader?) -> Bool { judge?(found) ?? true }
}

/// The error for a condition that does not hold. Nothing has been changed.
struct ConditionFailed: Error {}
