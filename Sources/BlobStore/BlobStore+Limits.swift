internal import BlobRecord
internal import PosixFiles

extension BlobStore {
  /// Removes what has to go for the directory to be within its limits: records that an earlier walk has found to be
  /// next, if there are enough of them, else by a whole collection, which finds others.
  ///
  /// - Returns: whether the limits are kept now, as far as this can tell.
  func keepLimits(
    _ options: CollectionOptions, _ victims: inout NextVictims, isSpared: @escaping (UInt64) -> Bool
  ) throws -> Bool {
    try withCollectorLock(options) { control in
      guard let control, let limit = StoreLimit(configuration, quarantineBytes: quarantineByteLimit) else {
        return true
      }
      // Another process may have made room meanwhile.
      if control.countersAreKnown, let usage = control.counters, !limit.isExceeded(by: usage) { return true }
      if control.countersAreKnown, !victims.isEmpty {
        let pass = CollectionPass(store: self, options: options, control: control)
        pass.isSpared = isSpared
        try timed(pass, isPass: false) { try pass.evict(&victims) }
        if pass.report.wasStopped { return true }
        if let usage = control.counters, !limit.isExceeded(by: usage) { return true }
      }
      let pass = try findVictims(options, &victims, control, looksAhead: false, isSpared)
      if pass.report.wasStopped { return true }
      let left = UsageEstimate(records: pass.report.recordsAfter, bytes: pass.report.bytesAfter)
      return control.countersAreKnown && !limit.isExceeded(by: left)
    }
  }

  /// Finds the records that are next to go ahead of the store that needs room, if those that are known will not do for a
  /// portion: so the recycling bin does not run dry during the walk.
  func lookAhead(
    _ options: CollectionOptions, _ victims: inout NextVictims, isSpared: @escaping (UInt64) -> Bool
  ) throws {
    guard let portion = evictionPortion, victims.areFewer(than: portion) else { return }
    var options = options
    options.looksAtEverything = true
    try withCollectorLock(options) { _ = try findVictims(options, &victims, $0, looksAhead: true, isSpared) }
  }

  /// Makes a whole collection, which finds the records that are next to go.
  private func findVictims(
    _ options: CollectionOptions, _ victims: inout NextVictims, _ control: ControlFile?,
    looksAhead: Bool, _ isSpared: @escaping (UInt64) -> Bool
  ) throws -> CollectionPass {
    let pass = CollectionPass(store: self, options: options, control: control, looksAhead: looksAhead)
    pass.isSpared = isSpared
    pass.nextVictims = NextVictims()
    try timed(pass, isPass: true) {
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
  /// file whose digest is below a record's (`DeadRecord`): of n files, with a probability of n / (n + 1).
  fileprivate var evictionPortion: EvictionPortion? {
    guard let limit = recyclingLimit else { return nil }
    func share(_ bound: Int64, ofWhatLies limit: Int64?, above target: Int64?) -> Int64 {
      min(bound / 4 * 3, limit.flatMap { limit in target.map { limit - $0 } } ?? .max)
    }
    return EvictionPortion(
      bytes: share(limit.bytes, ofWhatLies: configuration.sizeLimit, above: configuration.sizeTarget),
      files: share(limit.files, ofWhatLies: configuration.countLimit, above: configuration.countTarget))
  }

  /// Runs a collection, takes its time and records it.
  func timed(_ pass: CollectionPass, isPass: Bool, _ body: () throws -> Void) rethrows {
    let start = ContinuousClock.now
    collectionObservation.observer?.willBegin()
    try body()
    pass.report.seconds = start.duration(to: .now) / .seconds(1)
    collectionObservation.observer?.didEnd(pass.report)
    guard configuration.recordsCollections, !pass.options.dryRun else { return }
    pass.control?.record(pass.report, isPass: isPass, at: configuration.now())
  }

  /// Waits for the collection that a store may have started: for tests, which look at what it has left.
  package func waitForCollection() { keeper?.waitUntilIdle() }
}

extension CollectionPass {
  /// Removes records that were found to be next by an earlier walk, until by the counters the limits' targets are
  /// reached; or until the limits are kept and a portion is gone, where that is less.
  func evict(_ victims: inout NextVictims) throws {
    guard let control, let root = try store.root.opened() else { return }
    let limit = store.configuration
    let target = (bytes: limit.sizeTarget ?? .max, records: limit.countTarget ?? .max)
    let portion = recycles ? store.evictionPortion : nil
    let subdirectories = LastSubdirectory(root)
    while !isStopped, let usage = control.counters, usage.bytes > target.bytes || usage.records > target.records {
      if let portion, portion.isReached(files: report.evicted, bytes: report.bytesFreed),
        usage.bytes <= limit.sizeLimit ?? .max, usage.records <= limit.countLimit ?? .max
      {
        break
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
