internal import Synchronization

/// Counts down what is stored until a store has to look at something again.
struct BytesUntilLook: ~Copyable, Sendable {
  /// At or below zero, a look is under way.
  private let left: Atomic<Int64>

  init(_ byteCount: Int64) { left = Atomic(byteCount) }

  /// Counts what was stored.
  ///
  /// - Returns: whether the caller is the one to look, and to begin anew.
  func isDue(after byteCount: Int64) -> Bool {
    let (before, after) = left.subtract(byteCount, ordering: .relaxed)
    return before > 0 && after <= 0
  }

  func begin(_ byteCount: Int64) { left.store(byteCount, ordering: .relaxed) }
}
