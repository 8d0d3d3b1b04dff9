internal import BlobRecord
internal import Posix

// Functions that only tests call.

extension BlobStore {
  /// Waits for a collection that a store may have started, so that a test can check its result.
  package func waitForCollection() {
    while limitEnforcer?.isRunning == true { SystemClock.sleep(microseconds: 500) }
  }
}

extension CollectionSchedule {
  /// Makes the schedule read its clock again after a test has set it.
  package func clockWasSet() { runner.wake() }
}

#if DEBUG
  extension BlobStore {
    /// Traps if an invariant of Spec/Architecture.md does not hold; O(*n*). The invariants hold while no operation on
    /// the directory runs in any process.
    package func checkInvariants() throws(BlobStoreError) {
      try withErrorContext("check") { try core.checkInvariants() }
    }
  }

  extension StoreCore {
    fileprivate func checkInvariants() throws {
      stripes.checkInvariants()
      guard let open = try root.opened() else { return }
      open.checkInvariants()
      guard let control = open.openedControlFile, let walk = try Records(self).walk() else { return }
      var present = BlobStore.UsageEstimate()
      while let item = try walk.next() {
        if case .record(let entry) = item { present = present + BlobStore.UsageEstimate(entry.size) }
      }
      control.checkInvariants(against: present)
    }
  }
#endif
