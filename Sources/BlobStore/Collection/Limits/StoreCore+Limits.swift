internal import BlobRecord
internal import Posix

extension StoreCore {
  /// Removes what has to go for the directory to be within its limits: records that an earlier walk has found to be
  /// next, if there are enough of them, else by a whole collection, which finds others.
  ///
  /// What is known goes without the collector's lock: each record is judged again under its stripe anyway, and a process that
  /// is stopped in the middle of a collection keeps nobody from making room.
  ///
  /// - Parameter room: bytes that are to be left free, for a record that waits for them; asked again and again.
  /// - Returns: whether the limits are kept now, as far as this can tell.
  func keepLimits(
    _ options: BlobStore.CollectionOptions, _ victims: inout NextVictims, room: @escaping () -> Int64,
    isSpared: @escaping (UInt64) -> Bool
  ) throws -> Bool {
    guard let limit = keeperLimit else { return true }
    if try isKept(afterEvicting: &victims, options, limit, room: room, isSpared: isSpared) { return true }
    return try withCollectorLock(options) { control in
      guard let control else { return true }
      let limit = try withinVolume(limit, control)
      func isKept() -> Bool { control.counters.map { !limit.leavingFree(room()).isExceeded(by: $0) } ?? false }
      // Another process may have made room meanwhile.
      if control.countersAreKnown, isKept() { return true }
      let goal = limit.leavingFree(room())
      // Who has found room meanwhile may have been met by the walk, and would be there twice.
      func isGoalWanted() -> Bool { room() > 0 }
      var options = options
      if let bytes = goal.bytes { options.goal = .byteCount(bytes) }
      var pass = try findVictims(options, &victims, control, isSpared, isGoalWanted)
      let suffices = !limit.leavingFree(room()).isExceeded(by: pass.left)
      if suffices, pass.unmeasured == 0, !pass.report.wasStopped, !isKept() {
        // The counters say too much: somebody else has removed records, a power cut has, or what was stored during the
        // walk, and met by it, counts twice. By those counters, what is left would be evicted. A whole look corrects them.
        options.looksAtEverything = true
        pass = try findVictims(options, &victims, control, isSpared, isGoalWanted)
      }
      if pass.report.wasStopped { return true }
      // What was not seen may be what is too much: another try is of no use for a while.
      if pass.unmeasured > 0, !isKept() { return false }
      let left = pass.left
      let room = room()
      if !control.countersAreKnown { return false }
      // Who waits for room needs less than that, if need be.
      let filled = left + BlobStore.UsageEstimate(records: 1, bytes: room)
      return !limit.leavingFree(room).isExceeded(by: left)
        || room > 0 && !limit.isFarExceeded(by: filled, isKnown: true)
    }
  }

  /// Evicts what is known, as far as that is needed.
  ///
  /// - Returns: whether that is all there is to do: the limits are kept, or this was stopped.
  private func isKept(
    afterEvicting victims: inout NextVictims, _ options: BlobStore.CollectionOptions, _ limit: StoreLimit,
    room: () -> Int64, isSpared: @escaping (UInt64) -> Bool
  ) throws -> Bool {
    guard let open = try root.opened(), let control = countersFile(of: open), control.countersAreKnown else {
      return false
    }
    let limit = try withinVolume(limit, control)
    func isKept() -> Bool { control.counters.map { !limit.leavingFree(room()).isExceeded(by: $0) } ?? false }
    // Another process may have made room meanwhile.
    if isKept() { return true }
    guard !victims.isEmpty else { return false }
    let pass = CollectionPass(store: self, options: options, control: control)
    pass.isSpared = isSpared
    try timed(pass, .eviction) { try pass.evict(&victims) { limit.leavingFree(room()) } }
    return pass.report.wasStopped || isKept()
  }

  fileprivate var keeperLimit: StoreLimit? { StoreLimit(configuration, quarantineBytes: quarantineByteLimit) }

  /// The limit, with what the volume can spare.
  private func withinVolume(_ limit: StoreLimit, _ control: ControlFile) throws -> StoreLimit {
    var limit = limit
    limit.volumeBytes = try bytesSparedByVolume(control) ?? .max
    return limit
  }

  /// What may lie in the directory for the free space floor to be kept; nil where that does not matter, or is not known.
  private func bytesSparedByVolume(_ control: ControlFile) throws -> Int64? {
    guard configuration.limits.size != nil, configuration.limits.freeSpaceFloor != 0, control.countersAreKnown,
      let usage = control.counters, let open = try root.opened()
    else { return nil }
    return try VolumeShare(of: open.directory, floor: configuration.limits.freeSpaceFloor)
      .spares(forOneHolding: usage.bytes)
  }

  /// Finds the records that are next to go ahead of the stores that need room, if those that are known do not fill the
  /// recycling bin. What stores need during the walk, they get from those.
  ///
  /// - Returns: whether a walk was made for it.
  func lookAhead(
    _ options: BlobStore.CollectionOptions, _ victims: inout NextVictims, isSpared: @escaping (UInt64) -> Bool
  ) throws -> Bool {
    guard let usage = try usageEstimate(), let portion = evictionPortion(usage),
      victims.areFewer(thanFill: portion)
    else { return false }
    var options = options
    options.looksAtEverything = true
    try withCollectorLock(options) { control in
      let pass = CollectionPass(store: self, options: options, control: control, evictingMeanwhile: victims)
      pass.isSpared = isSpared
      pass.nextVictims = NextVictims()
      defer { victims = pass.nextVictims.flatMap { $0.isEmpty ? nil : $0 } ?? pass.victimsMeanwhile ?? NextVictims() }
      // It corrects no counters: what is stored meanwhile would count twice, and that much be evicted too early.
      try timed(pass, .lookAhead) { try pass.run(since: .now) }
    }
    victims.areAll = victims.areFewer(thanFill: portion)
    return true
  }

  /// Makes a whole collection, which finds the records that are next to go.
  private func findVictims(
    _ options: BlobStore.CollectionOptions, _ victims: inout NextVictims, _ control: ControlFile?,
    _ isSpared: @escaping (UInt64) -> Bool, _ isGoalWanted: @escaping () -> Bool
  ) throws -> CollectionPass {
    let pass = CollectionPass(store: self, options: options, control: control)
    pass.isGoalWanted = isGoalWanted
    pass.isSpared = isSpared
    pass.nextVictims = NextVictims()
    try timed(pass, .whole) {
      try correctingCounters(unless: { pass.isStopped }) {
        try pass.run(since: .now)
        return pass.enumeration
      }
    }
    victims = pass.nextVictims ?? NextVictims()
    return pass
  }

  /// What a store's collection evicts at a time, where that is recycled: a quarter of what the recycling bin holds.
  ///
  /// To evict more than it holds would unlink what stores then have to make anew. And the fuller it is, the more often a
  /// file lies there whose digest is below a record's (`DeadRecord`). But each look ahead walks over all there is: where
  /// that is very much, it costs more than it saves.
  fileprivate func evictionPortion(_ usage: BlobStore.UsageEstimate) -> EvictionPortion? {
    guard let bin = recyclingLimit, configuration.format == .checksummed,
      configuration.durability.level(concernsLock: false) == .none, usage.records <= EvictionPortion.mostRecords
    else { return nil }
    func share(_ bound: Int64, ofWhatLies limit: Int64?, above target: Int64?) -> Int64 {
      min(bound / EvictionPortion.perBin, limit.flatMap { limit in target.map { limit - $0 } } ?? .max)
    }
    return EvictionPortion(
      bytes: share(bin.bytes, ofWhatLies: configuration.limits.size, above: configuration.sizeTarget),
      files: share(bin.files, ofWhatLies: configuration.limits.count, above: configuration.countTarget))
  }

  /// Runs a collection, takes its time and records it.
  func timed(_ pass: CollectionPass, _ kind: CollectionKind, _ body: () throws -> Void) rethrows {
    let start = ContinuousClock.now
    collectionObservation.observer?.willBegin()
    try body()
    pass.report.seconds = start.duration(to: .now) / .seconds(1) - pass.secondsMeanwhile
    collectionObservation.observer?.didEnd(pass.report)
    guard configuration.access.recordsCollections, !pass.options.dryRun else { return }
    pass.control?.record(pass.report, kind, at: configuration.now())
  }
}

extension CollectionPass {
  /// Removes records that were found to be next by an earlier walk, until by the counters the limits' targets are
  /// reached; or until the limits are kept and a portion is gone, where that is less.
  func evict(_ victims: inout NextVictims, limit: () -> StoreLimit) throws {
    guard let control, let open = try store.root.opened() else { return }
    let configuration = store.configuration
    let volumeTarget = limit().volumeBytes.share(configuration.limits.evictionTarget)
    let target = (
      bytes: min(configuration.sizeTarget ?? .max, volumeTarget), records: configuration.countTarget ?? .max
    )
    let portion = control.counters.flatMap { store.evictionPortion($0) }
    let subdirectories = LastSubdirectory(open)
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

extension CollectionPass {
  /// Evicts, during a walk that looks ahead, what is known already, if stores have exceeded the limits since.
  func evictMeanwhile() {
    guard var victims = victimsMeanwhile, !victims.isEmpty, let control, let limit = store.keeperLimit,
      let usage = control.counters, limit.isExceeded(by: usage)
    else { return }
    victimsMeanwhile = nil
    defer { victimsMeanwhile = victims }
    let pass = CollectionPass(store: store, options: options, control: control)
    pass.isSpared = isSpared
    surviving { try store.timed(pass, .eviction) { try pass.evict(&victims) { limit } } }
    secondsMeanwhile += pass.report.seconds
  }
}

extension BlobStore.Configuration {
  /// What an eviction leaves: bytes; nil without a limit.
  fileprivate var sizeTarget: Int64? { limits.size?.share(limits.evictionTarget) }
  fileprivate var countTarget: Int64? { limits.count?.share(limits.evictionTarget) }
}
