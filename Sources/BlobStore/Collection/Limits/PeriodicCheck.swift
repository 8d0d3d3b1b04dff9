internal import Synchronization

/// A countdown of stored bytes until a store must repeat a check.
final class PeriodicCheck: Sendable {
  /// The bytes until the next check. The value is zero or less during a check.
  private let left: Atomic<Int64>

  init(after byteCount: Int64) { left = Atomic(byteCount) }

  /// Counts stored bytes. Returns `true` if the caller must make the check and `restart` the countdown.
  func isDue(after byteCount: Int64) -> Bool {
    let (before, after) = left.subtract(byteCount, ordering: .relaxed)
    return before > 0 && after <= 0
  }

  func restart(after byteCount: Int64) { left.store(byteCount, ordering: .relaxed) }
}
