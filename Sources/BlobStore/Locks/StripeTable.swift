internal import Locks
internal import Posix

/// The locks that serialize changes within the process.
///
/// A key always has one stripe, so it has one change at a time. `StripeLocks` adds other processes.
@safe final class StripeTable: @unchecked Sendable {
  // Unchecked because of the pointer: it is set once, and what it points to are mutexes, which any thread may use.
  private let stripes: UnsafeMutablePointer<Lock<Void>>

  private static let count = ControlLayout.stripeCount

  init() {
    unsafe stripes = .allocate(capacity: Self.count)
    for index in 0..<Self.count { unsafe (stripes + index).initialize(to: Lock(())) }
  }

  deinit {
    unsafe stripes.deinitialize(count: Self.count)
    unsafe stripes.deallocate()
  }

  /// - Returns: what `body` returns; nil, without calling it, if the stripe is taken.
  func withStripeIfAvailable<Result: ~Copyable>(of digest: UInt64, _ body: () throws -> Result?) rethrows -> Result? {
    var result: Result?
    try withStripeIfAvailable(of: digest, body, into: &result)
    return result
  }

  /// `Lock` lets only values out that are sent away; this one stays in its thread.
  private func withStripeIfAvailable<Result: ~Copyable>(
    of digest: UInt64, _ body: () throws -> Result?, into result: inout Result?
  ) rethrows {
    _ = try unsafe stripes[Int(digest % UInt64(Self.count))].withLockIfAvailable { _ in result = try body() }
  }
}

#if DEBUG
  extension StripeTable {
    /// Traps where a stripe is still taken. For tests, while no operation is under way.
    func checkInvariants() {
      for index in 0..<Self.count {
        let isFree: Void? = unsafe stripes[index].withLockIfAvailable { _ in }
        precondition(isFree != nil)
      }
    }
  }
#endif
