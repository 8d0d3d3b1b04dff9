internal import Synchronization

/// Counts down stored bytes until a store has to check something again.
final class PeriodicCheck: Sendable {
  /// The bytes until the next check. While a check is under way, this is zero or less.
  private let left: Atomic<Int64>

  init(after byteCount: Int64) { left = Atomic(byteCount) }

  /// Counts stored bytes.
  ///
  /// - Returns: A Boolean value that indicates whether the caller has to make the check, and to `restart` the count.
  func isDue(after byteCount: Int64) -> Bool {
    let (before, after) = left.subtract(byteCount, ordering: .relaxed)
    return before > 0 && after <= 0
  }

  func restart(after byteCount: Int64) { left.store(byteCount, ordering: .relaxed) }
}
