internal import Posix
internal import Synchronization

extension ControlFile {
  /// Counts a change of a record file: what was there before, and what is there now.
  ///
  /// - Returns: the counters afterwards; nil where there are none.
  @discardableResult
  func count(from before: RecordSize?, to after: RecordSize?) -> BlobStore.UsageEstimate? {
    guard isMapped else { return nil }
    let delta = BlobStore.UsageEstimate(after) - BlobStore.UsageEstimate(before)
    func add(_ value: Int64, at offset: Int) {
      if value != 0 { counter(offset) { _ = $0.wrappingAdd(value, ordering: .relaxed) } }
    }
    add(delta.records, at: ControlLayout.recordsOffset)
    add(delta.bytes, at: ControlLayout.bytesOffset)
    add(delta.lockedRecords, at: ControlLayout.lockedRecordsOffset)
    add(delta.lockedBytes, at: ControlLayout.lockedBytesOffset)
    return counters
  }

  /// The counters as they are; they mean something once they are known.
  var counters: BlobStore.UsageEstimate? {
    guard isMapped else { return nil }
    func value(at offset: Int) -> Int64 { counter(offset) { $0.load(ordering: .relaxed) } }
    return BlobStore.UsageEstimate(
      records: value(at: ControlLayout.recordsOffset), bytes: value(at: ControlLayout.bytesOffset),
      lockedRecords: value(at: ControlLayout.lockedRecordsOffset),
      lockedBytes: value(at: ControlLayout.lockedBytesOffset))
  }

  /// The counters at a moment without a change under way. A store is counted before it is published, and a listing in
  /// between does not meet its record. If no such moment comes within `timeout`, the counters as they are.
  ///
  /// The moment comes when all stripes are locked at once, by a description of its own, which keeps out the threads of
  /// this process too. A directory of one store alone needs no wait: that store locks no stripes.
  ///
  /// That moment also tells which changes of headers have died.
  ///
  /// - Parameter isStopped: asked before each wait; if true, the counters are returned as they are.
  func settledCounters(
    in directory: borrowing Directory, within timeout: Duration, unless isStopped: () -> Bool
  ) throws -> BlobStore.UsageEstimate? {
    guard isMapped, case .regular(let file, _) = try directory.openFile(Self.name, for: .readWrite) else {
      return counters
    }
    var backoff = Backoff(timeout: timeout)
    while try !file.tryLock(bytes: ControlLayout.stripeBytes) {
      guard !isStopped(), backoff.wait() else { return counters }
    }
    let settled = counters
    forgetHeaderChanges()
    try file.unlock(bytes: ControlLayout.stripeBytes)
    return settled
  }

  /// Whether a full enumeration has counted the directory since the file was made.
  var countersAreKnown: Bool {
    isMapped && counter(ControlLayout.countersAreKnownOffset) { $0.load(ordering: .acquiring) } == 1
  }

  /// Corrects the counters by a full enumeration.
  ///
  /// Others may have added records during the enumeration, and it cannot tell how many of them it met. They count as
  /// not met: counters that say too much make the next collection early, those that say too little would let stores
  /// exceed a limit.
  ///
  /// - Parameter start: the counters when it began.
  func correctCounters(to found: BlobStore.UsageEstimate, since start: BlobStore.UsageEstimate) {
    guard let now = counters else { return }
    let during = now - start
    func add(_ value: Int64, at offset: Int) { counter(offset) { _ = $0.wrappingAdd(value, ordering: .relaxed) } }
    add(found.records &+ max(during.records, 0) &- now.records, at: ControlLayout.recordsOffset)
    add(found.bytes &+ max(during.bytes, 0) &- now.bytes, at: ControlLayout.bytesOffset)
    add(found.lockedRecords &+ max(during.lockedRecords, 0) &- now.lockedRecords, at: ControlLayout.lockedRecordsOffset)
    add(found.lockedBytes &+ max(during.lockedBytes, 0) &- now.lockedBytes, at: ControlLayout.lockedBytesOffset)
    counter(ControlLayout.countersAreKnownOffset) { $0.store(1, ordering: .releasing) }
  }
}

#if DEBUG
  extension ControlFile {
    /// Traps where the counters cannot be right. For tests, while no operation of any process is under way.
    ///
    /// - Parameter present: what a walk finds. A change is counted before it is visible, so the counters never say less.
    func checkInvariants(against present: BlobStore.UsageEstimate) {
      precondition(headerChangesHere.load(ordering: .relaxed) == 0)
      guard countersAreKnown, let counters else { return }
      precondition(counters.records >= present.records)
      precondition(counters.bytes >= present.bytes)
      precondition(counters.lockedRecords >= present.lockedRecords)
      precondition(counters.lockedBytes >= present.lockedBytes)
    }
  }
#endif
