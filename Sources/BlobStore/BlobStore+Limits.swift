internal import BlobRecord
internal import PosixFiles

extension BlobStore {
  /// Removes what has to go for the directory to be within its limits: records that an earlier walk has found to be
  /// next, if there are enough of them, else by a whole collection, which finds others.
  ///
  /// - Parameter room: bytes that are to be left free, for a record that waits for them; asked again and again.
  /// - Returns: whether the limits are kept now, as far as this can tell.
  func keepLimits(
    _ options: CollectionOptions, _ victims: inout NextVictims, room: () -> Int64,
    isSpared: @escaping (UInt64) -> Bool
  ) throws -> Bool {
    try withCollectorLock(options) { control in
      guard let control, let limit = keeperLimit else { return true }
      func isKept() -> Bool { control.counters.map { !limit.leavingFree(room()).isExceeded(by: $0) } ?? false }
      // Another process may have made room meanwhile.
      if control.countersAreKnown, isKept() { return true }
      if control.countersAreKnown, !victims.isEmpty {
        let pass = CollectionPass(store: self, options: options, control: control)
        pass.isSpared = isSpared
        try timed(pass, .eviction) { try pass.evict(&victims) { limit.leavingFree(room()) } }
        if pass.report.wasStopped || isKept() { return true }
      }
      let room = room()
      let goal = limit.leavingFree(room)
      var options = options
      if let bytes = goal.bytes { options.goal = .byteCount(bytes) }
      let pass = try findVictims(options, &victims, control, looksAhead: false, isSpared)
      if pass.report.wasStopped { return true }
      let left = UsageEstimate(records: pass.report.recordsAfter, bytes: pass.report.bytesAfter)
      if !control.countersAreKnown { return false }
      // Who waits for room needs less than that, if need be.
      let filled = left + UsageEstimate(records: 1, bytes: room)
      return !goal.isExceeded(by: left) || room > 0 && !limit.isFarExceeded(by: filled, isKnown: true)
    }
  }

  private var keeperLimit: StoreLimit? { StoreLimit(configuration, quarantineBytes: quarantineByteLimit) }

  /// Finds the records that are next to go ahead of the store that needs room, if those that are known will not do for a
  /// portion: so the recycling bin does not run dry during the walk.
  ///
  /// - Returns: whether a walk was made for it.
  func lookAhead(
    _ options: CollectionOptions, _ victims: inout NextVictims, isSpared: @escaping (UInt64) -> Bool
  ) throws -> Bool {
    guard let usage = try usageEstimate(), let portion = evictionPortion(usage), victims.areFewer(than: portion) else {
      return false
    }
    var options = options
    options.looksAtEverything = true
    var found = victims
    try withCollectorLock(options) { _ = try findVictims(options, &found, $0, looksAhead: true, isSpared) }
    if !found.isEmpty { victims = found }
    victims.areAll = victims.areFewer(than: portion)
    return true
  }

  /// Makes a whole collection, which finds the records that are next to go.
  private func findVictims(
    _ options: CollectionOptions, _ victims: inout NextVictims, _ control: ControlFile?,
    looksAhead: Bool, _ isSpared: @escaping (UInt64) -> Bool
  ) throws -> CollectionPass {
    let pass = CollectionPass(store: self, options: options, control: control, looksAhead: looksAhead)
    pass.isSpared = isSpared
    pass.nextVictims = NextVictims()
    try timed(pass, looksAhead ? .lookAhead : .whole) {
      // What is stored meanwhile would count twice, and that much would be evicted too early.
      if looksAhead { return try pass.run(since: .now) }
      try correctingCounters {
        try pass.run(since: .now)
        return pass.enumeration
      }
    }
    victims = pass.nextVictims ?? NextVictims()
    return pass
  }

  /// What a store's collection evicts at a time, where that is recycled: three quarters of what the recycling bin holds.
  ///
  /// To evict more would unlink what stores then have to make anew. And while a quarter is left, there is nearly always a
  /// file whose digest is below a record's (`DeadRecord`): of n files, with a probability of n / (n + 1). But each look ahead
  /// walks over all there is: where that is very much, it costs more than it saves.
  fileprivate func evictionPortion(_ usage: UsageEstimate) -> EvictionPortion? {
    guard let bin = recyclingLimit, configuration.format == .checksummed,
      configuration.durability.level(concernsLock: false) == .none, usage.records <= EvictionPortion.mostRecords
    else { return nil }
    func share(_ bound: Int64, ofWhatLies limit: Int64?, above target: Int64?) -> Int64 {
      min(bound / 4 * 3, limit.flatMap { limit in target.map { limit - $0 } } ?? .max)
    }
    return EvictionPortion(
      bytes: share(bin.bytes, ofWhatLies: configuration.sizeLimit, above: configuration.sizeTarget),
      files: share(bin.files, ofWhatLies: configuration.countLimit, above: configuration.countTarget))
  }

  /// Runs a collection, takes its time and records it.
  func timed(_ pass: CollectionPass, _ kind: CollectionKind, _ body: () throws -> Void) rethrows {
    let start = ContinuousClock.now
    collectionObservation.observer?.willBegin()
    try body()
    pass.report.seconds = start.duration(to: .now) / .seconds(1)
    collectionObservation.observer?.didEnd(pass.report)
    guard configuration.recordsCollections, !pass.options.dryRun else { return }
    pass.control?.record(pass.report, kind, at: configuration.now())
  }

  /// Waits for the collection that a store may have started: for tests, which look at what it has left.
  package func waitForCollection() { keeper?.waitUntilIdle() }
}

extension CollectionPass {
  /// Removes records that were found to be next by an earlier walk, until by the counters the limits' targets are
  /// reached; or until the limits are kept and a portion is gone, where that is less.
  func evict(_ victims: inout NextVictims, limit: () -> StoreLimit) throws {
    guard let control, let root = try store.root.opened() else { return }
    let configuration = store.configuration
    let target = (bytes: configuration.sizeTarget ?? .max, records: configuration.countTarget ?? .max)
    let portion = control.counters.flatMap { store.evictionPortion($0) }
    let subdirectories = LastSubdirectory(root)
    while !isStopped, let usage = control.counters {
      if !limit().isExceeded(by: usage) {
        if usage.bytes <= target.bytes, usage.records <= target.records { break }
        if let portion, portion.isReached(files: report.evicted, bytes: report.bytesFreed) { break }
      }
      guard let victim = victims.next() else { break }
      surviving { try evict(victim, in: subdirectories) }
    }
  }
}

extension BlobStore.Configuration {
  /// What an eviction leaves: bytes; nil without a limit.
  fileprivate var sizeTarget: Int64? { sizeLimit?.share(evictionTarget) }
  fileprivate var countTarget: Int64? { countLimit?.share(evictionTarget) }
}
