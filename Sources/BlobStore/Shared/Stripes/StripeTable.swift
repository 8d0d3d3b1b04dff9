internal import Locks
internal import Synchronization

/// The locks that serialize changes within the process: a flag for each stripe.
///
/// A key always has one stripe, so it has one change at a time. They are only tried: who finds one taken comes again, as
/// for a stripe that another process has. `StripeLocks` adds other processes.
@safe final class StripeTable: @unchecked Sendable {
  // Unchecked because of the pointer: it is set once, and what it points to are atomics, which any thread may use.
  private let taken: UnsafeMutablePointer<Atomic<Bool>>

  private static let count = ControlLayout.stripeCount

  init() {
    unsafe taken = .allocate(capacity: Self.count)
    for index in 0..<Self.count { unsafe (taken + index).initialize(to: Atomic(false)) }
  }

  deinit {
    unsafe taken.deinitialize(count: Self.count)
    unsafe taken.deallocate()
  }

  /// Takes a digest's stripe.
  ///
  /// - Returns: nil if it is taken.
  func stripe(of digest: UInt64) -> Stripe? {
    let index = ControlLayout.stripe(of: digest)
    guard unsafe !taken[index].exchange(true, ordering: .acquiring) else { return nil }
    LockOrder.didTake(.stripe)
    return Stripe(table: self, index: index)
  }

  /// Whether a stripe is taken.
  func isTaken(_ index: Int) -> Bool { unsafe taken[index].load(ordering: .acquiring) }

  /// Takes all stripes, if none is taken, and frees them after a closure.
  ///
  /// - Returns: nil if one is taken.
  func withAll<Result>(_ body: () throws -> Result?) rethrows -> Result? {
    var count = 0
    defer { for index in 0..<count { unsafe taken[index].store(false, ordering: .releasing) } }
    while count < Self.count {
      guard unsafe !taken[count].exchange(true, ordering: .acquiring) else { return nil }
      count += 1
    }
    return try body()
  }

  /// A stripe that is taken, until the value ends.
  struct Stripe: ~Copyable {
    fileprivate let table: StripeTable
    fileprivate let index: Int

    deinit {
      LockOrder.willFree(.stripe)
      unsafe table.taken[index].store(false, ordering: .releasing)
    }
  }
}

#if DEBUG
  extension StripeTable {
    /// Traps where a stripe is still taken. For tests, while no operation is under way.
    func checkInvariants() {
      for index in 0..<Self.count { precondition(unsafe !taken[index].load(ordering: .acquiring)) }
    }
  }
#endif
