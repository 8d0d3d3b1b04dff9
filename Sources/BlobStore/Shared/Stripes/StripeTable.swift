internal import Locks
internal import Synchronization

/// The flags of stripes that serialize changes within the process. `StripeLocks` excludes other processes. A key always
/// has the same stripe, so it has one change at a time. A caller that finds a flag taken tries again, as it does for a
/// stripe of another process.
@safe final class StripeTable: @unchecked Sendable {
  // Unchecked because of the pointer, which is set once, and points to atomics, which any thread may use.
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

  func stripe(of digest: UInt64) -> Stripe? {
    let index = ControlLayout.stripe(of: digest)
    guard unsafe !taken[index].exchange(true, ordering: .acquiring) else { return nil }
    LockOrder.didTake(.stripe)
    return Stripe(table: self, index: index)
  }

  func isTaken(_ index: Int) -> Bool { unsafe taken[index].load(ordering: .acquiring) }

  /// Takes all stripes, and frees them after the closure. Returns `nil` if a stripe is taken.
  func withAll<Result>(_ body: () throws -> Result?) rethrows -> Result? {
    var count = 0
    defer { for index in 0..<count { unsafe taken[index].store(false, ordering: .releasing) } }
    while count < Self.count {
      guard unsafe !taken[count].exchange(true, ordering: .acquiring) else { return nil }
      count += 1
    }
    return try body()
  }

  /// A taken stripe, which is freed when this value ends.
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
    /// Traps if a stripe is still taken. For tests, while no operation is in progress.
    func checkInvariants() {
      for index in 0..<Self.count { precondition(unsafe !taken[index].load(ordering: .acquiring)) }
    }
  }
#endif
