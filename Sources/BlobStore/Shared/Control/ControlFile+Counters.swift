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
    func add(_ value: Int64, to place: ControlLayout.Counter) {
      guard value != 0 else { return }
      // First, so that a correction takes nothing away that it does not know to be new.
      if value > 0 { counter(place.added) { _ = $0.wrappingAdd(value, ordering: .releasing) } }
      counter(place.present) { _ = $0.wrappingAdd(value, ordering: .releasing) }
    }
    add(delta.records, to: .records)
    add(delta.bytes, to: .bytes)
    add(delta.lockedRecords, to: .lockedRecords)
    add(delta.lockedBytes, to: .lockedBytes)
    return counters
  }

  /// The counters as they are; they mean something once they are known.
  var counters: BlobStore.UsageEstimate? {
    guard isMapped else { return nil }
    func value(at offset: Int) -> Int64 { counter(offset) { $0.load(ordering: .acquiring) } }
    return BlobStore.UsageEstimate(
      records: value(at: ControlLayout.Counter.records.present), bytes: value(at: ControlLayout.Counter.bytes.present),
      lockedRecords: value(at: ControlLayout.Counter.lockedRecords.present),
      lockedBytes: value(at: ControlLayout.Counter.lockedBytes.present))
  }

  /// Whether a full enumeration has counted the directory since the file was made.
  var countersAreKnown: Bool {
    isMapped && counter(ControlLayout.countersAreKnownOffset) { $0.load(ordering: .acquiring) } == 1
  }

  /// Whether a record was ever stored since the file was made. Where memory is not shared, nobody knows.
  var hasCountedRecords: Bool {
    !isMapped || counter(ControlLayout.Counter.records.added) { $0.load(ordering: .acquiring) } != 0
  }

  /// All that was ever added to the counters.
  private var added: BlobStore.UsageEstimate {
    func value(_ place: ControlLayout.Counter) -> Int64 { counter(place.added) { $0.load(ordering: .acquiring) } }
    return BlobStore.UsageEstimate(
      records: value(.records), bytes: value(.bytes),
      lockedRecords: value(.lockedRecords), lockedBytes: value(.lockedBytes))
  }

  /// The counters before an enumeration; nil where there are none.
  func counterReading() -> CounterReading? {
    guard isMapped else { return nil }
    // Read before the counters, so what is added in between counts as added during the enumeration.
    let added = added
    return counters.map { CounterReading(present: $0, added: added) }
  }

  /// Corrects the counters by a full enumeration.
  ///
  /// Others may have added and removed records during the enumeration, and it cannot tell how many of them it met. So it
  /// tells the least and the most that there can be. Counters in between stay; others, and unknown ones, become the most.
  /// Counters that say too much make the next collection early. Those that say too little would let stores exceed a limit.
  ///
  /// - Parameters:
  ///   - removed: what the enumeration has removed itself.
  ///   - start: the counters when it began.
  func correctCounters(
    to found: BlobStore.UsageEstimate, removed: BlobStore.UsageEstimate, since start: CounterReading
  ) {
    guard let present = counters else { return }
    let (added, areKnown) = (added - start.added, countersAreKnown)
    let removedByOthers = added - (present - (start.present - removed))
    var mustStayUnknown = false
    func correct(_ value: KeyPath<BlobStore.UsageEstimate, Int64>, at place: ControlLayout.Counter) {
      let (now, most) = (present[keyPath: value], found[keyPath: value] &+ added[keyPath: value])
      let least = found[keyPath: value] &- removedByOthers[keyPath: value]
      if areKnown, least <= now, now <= most { return }
      // A record that is counted may not be in its place yet. Without it, the counters would say too little.
      guard most >= now || start.isSettled else {
        mustStayUnknown = !areKnown
        return
      }
      counter(place.present) { _ = $0.wrappingAdd(most &- now, ordering: .relaxed) }
    }
    correct(\.records, at: .records)
    correct(\.bytes, at: .bytes)
    correct(\.lockedRecords, at: .lockedRecords)
    correct(\.lockedBytes, at: .lockedBytes)
    guard !mustStayUnknown else { return }
    counter(ControlLayout.countersAreKnownOffset) { $0.store(1, ordering: .releasing) }
  }
}

/// The counters of a directory before an enumeration.
struct CounterReading {
  let present: BlobStore.UsageEstimate
  /// All that was ever added to each.
  fileprivate let added: BlobStore.UsageEstimate
  /// Whether each change that was counted before the reading had ended before the enumeration began. Else a record may be counted
  /// that the enumeration has not met.
  var isSettled = false
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
