internal import Posix
internal import Synchronization

extension ControlFile {
  /// Counts the change of a record file. Returns the new counters, or `nil` without shared memory.
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

  /// The current counters, limited for arithmetic, which are meaningful only if `countersAreKnown`.
  var counters: BlobStore.UsageEstimate? { isMapped ? usage(\.present, by: number(at:)) : nil }

  private func usage(
    _ offset: (ControlLayout.Counter) -> Int, by read: (Int) -> Int64
  ) -> BlobStore.UsageEstimate {
    BlobStore.UsageEstimate(
      records: read(offset(.records)), bytes: read(offset(.bytes)), lockedRecords: read(offset(.lockedRecords)),
      lockedBytes: read(offset(.lockedBytes)))
  }

  /// A Boolean value that indicates whether a full enumeration has counted the directory since the file was created.
  var countersAreKnown: Bool {
    isMapped && counter(ControlLayout.countersAreKnownOffset) { $0.load(ordering: .acquiring) } == 1
  }

  /// A Boolean value that indicates whether a record was ever stored, which is always `true` without shared memory.
  var hasCountedRecords: Bool {
    !isMapped || counter(ControlLayout.Counter.records.added) { $0.load(ordering: .acquiring) } != 0
  }

  func counterReading() -> CounterReading? {
    guard isMapped else { return nil }
    // Not limited, because differences of the words correct any number. The sums of all additions are read before the
    // counters, so an addition between the two reads counts as made during the enumeration.
    let added = usage(\.added, by: word(at:))
    return CounterReading(present: usage(\.present, by: word(at:)), added: added)
  }

  /// Corrects the counters after a full enumeration.
  ///
  /// Other stores may have added and removed records during the enumeration, which has seen an unknown number of
  /// them. This gives a lower and an upper bound. Known counters between the bounds stay, and all others become the
  /// upper bound: counters that are too high start the next collection early, whereas counters that are too low would
  /// let stores exceed a limit.
  ///
  /// A counter is lowered, and unknown counters become known, only if no change was in progress when the enumeration
  /// began and when it ended. A record that is counted and not yet in its place is missing in the enumeration, and one
  /// that has been removed and is still counted would be subtracted twice.
  ///
  /// - Parameters:
  ///   - removed: The records that the enumeration itself has removed.
  ///   - start: The counters before the enumeration.
  ///   - settle: Waits until the changes in progress have ended, and returns whether they have.
  func correctCounters(
    to found: BlobStore.UsageEstimate, removed: BlobStore.UsageEstimate, since start: CounterReading,
    settling settle: () throws -> Bool
  ) rethrows {
    let areKnown = countersAreKnown
    func corrections() -> [(place: ControlLayout.Counter, delta: Int64)] {
      guard let end = counterReading() else { return [] }
      let added = end.added - start.added
      let removedByOthers = added - (end.present - (start.present - removed))
      func correction(
        of value: KeyPath<BlobStore.UsageEstimate, Int64>, at place: ControlLayout.Counter
      ) -> (ControlLayout.Counter, Int64)? {
        let (now, most) = (end.present[keyPath: value], found[keyPath: value] &+ added[keyPath: value])
        let least = found[keyPath: value] &- removedByOthers[keyPath: value]
        return now == most || areKnown && least <= now && now <= most ? nil : (place, most &- now)
      }
      return [
        correction(of: \.records, at: .records), correction(of: \.bytes, at: .bytes),
        correction(of: \.lockedRecords, at: .lockedRecords), correction(of: \.lockedBytes, at: .lockedBytes),
      ].compactMap(\.self)
    }
    if areKnown, corrections().isEmpty { return }
    let isSettled = try start.isSettled && settle()
    guard areKnown || isSettled else { return }
    for (place, delta) in corrections() where delta > 0 || isSettled {
      counter(place.present) { _ = $0.wrappingAdd(delta, ordering: .relaxed) }
    }
    if isSettled { counter(ControlLayout.countersAreKnownOffset) { $0.store(1, ordering: .releasing) } }
  }
}

struct CounterReading {
  let present: BlobStore.UsageEstimate
  fileprivate let added: BlobStore.UsageEstimate
  /// A Boolean value that indicates whether each change that was counted before the reading had ended before the
  /// enumeration. Otherwise the enumeration may have missed a counted record.
  var isSettled = false
}

#if DEBUG
  extension ControlFile {
    /// Traps if the counters cannot be right. For tests, while no operation of any process is in progress. A change
    /// is counted before it is visible, so the counters are never less than the result of a walk.
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
