internal import BlobRecord
internal import Posix

/// The work of a limit enforcer's thread: it evicts queued records, or makes a collection that fills the queue.
struct LimitRun {
  let core: StoreCore
  let options: BlobStore.CollectionOptions
  /// A closure that returns whether the record with a digest must not be evicted.
  let isSpared: (UInt64) -> Bool

  enum Outcome {
    case kept
    /// The limits are satisfied, but not the reservations of writers.
    case shortOfReserve
    /// The remaining records are locked or cannot be removed.
    case short
  }

  /// Removes records until the directory is within its limits and has the wanted room. It calls `room` repeatedly.
  ///
  /// Records in the queue of an earlier walk are evicted first. If they do not suffice, a complete collection finds
  /// others. Queued records are evicted without the collector's lock, because each is checked again under its stripe.
  /// Therefore, a process that is suspended during a collection does not prevent others from making room.
  func keepLimits(_ queue: inout EvictionQueue, room: @escaping () -> WantedRoom) throws -> Outcome {
    guard let configured = StoreLimit(of: core) else { return .kept }
    // Space that packs take beyond the permitted space counts against the limit.
    let permitted = try bytesThatPacksPermit()
    let limit = configured.within(permitted)
    if try isKept(afterEvicting: &queue, limit, room: room) { return .kept }
    return try CollectorLock(of: core).hold(options) { control in
      guard let control else { return .kept }
      let limit = try withinVolume(limit, control)
      func isKept() -> Bool { control.counters.map { !limit.leavingFree(room().bytes).isExceeded(by: $0) } ?? false }
      // Another process may have made room in the meantime.
      if control.countersAreKnown, isKept() { return .kept }
      let goal = limit.leavingFree(room().bytes)
      // The walk may have returned the record of a store that has found room in the meantime, which would count twice.
      func isGoalWanted() -> Bool { room().bytes > 0 || permitted != nil }
      var options = options
      if let bytes = goal.bytes { options.goal = .byteCount(bytes) }
      var run = try findCandidates(options, &queue, control, isGoalWanted)
      let suffices = !limit.leavingFree(room().bytes).isExceeded(by: run.tally.left)
      if suffices, run.tally.unmeasured == 0, !run.report.wasStopped, !isKept() {
        // The counters are too high, because another process or a power failure has removed records, or because a
        // record that was stored during the walk counts twice. They would cause more evictions, so a complete walk
        // corrects them, as far as concurrent changes allow it.
        options.looksAtEverything = true
        run = try findCandidates(options, &queue, control, isGoalWanted)
      }
      if run.report.wasStopped { return .kept }
      // The files that were not measured may exceed the limit, so another attempt does not help for some time.
      if run.tally.unmeasured > 0, !isKept() { return .short }
      if !control.countersAreKnown { return .short }
      return outcome(limit, room(), run.tally.left)
    }
  }

  /// Makes a complete collection if the packs take too much space on disk, so that expired records are removed before
  /// the rest is moved. Returns the permitted bytes of records if the packs still take too much space.
  private func bytesThatPacksPermit() throws -> Int64? {
    guard try PackedMedium(of: core)?.isTooMuch == true else { return nil }
    try CollectorLock(of: core).hold(options) { control in
      _ = try CollectionRun(core, options, control, SizePass.Aim(isSpared: isSpared)).collect()
    }
    return try PackedMedium(of: core)?.recordByteCount
  }

  private func outcome(_ limit: StoreLimit, _ room: WantedRoom, _ left: BlobStore.UsageEstimate) -> Outcome {
    guard limit.leavingFree(room.bytes).isExceeded(by: left) else { return .kept }
    guard room.waiting > 0 else { return limit.isExceeded(by: left) ? .short : .shortOfReserve }
    // A store that waits for room can make do with less than the target if necessary.
    let filled = left + BlobStore.UsageEstimate(records: 1, bytes: room.waiting)
    return limit.isFarExceeded(by: filled, isKnown: true) ? .short : .kept
  }

  /// Evicts queued records as far as required. Returns `true` if the limits are satisfied or the run was stopped.
  private func isKept(
    afterEvicting queue: inout EvictionQueue, _ limit: StoreLimit, room: () -> WantedRoom
  ) throws -> Bool {
    guard let open = try core.root.opened(), let control = core.countersFile(of: open), control.countersAreKnown else {
      return false
    }
    let limit = try withinVolume(limit, control)
    func isKept() -> Bool { control.counters.map { !limit.leavingFree(room().bytes).isExceeded(by: $0) } ?? false }
    // Another process may have made room in the meantime.
    if isKept() { return true }
    guard !queue.isEmpty else { return false }
    let run = CollectionRun(core, options, control, SizePass.Aim(isSpared: isSpared))
    try run.evict(&queue) { limit.leavingFree(room().bytes) }
    return run.report.wasStopped || isKept()
  }

  private func withinVolume(_ limit: StoreLimit, _ control: ControlFile) throws -> StoreLimit {
    var limit = limit
    limit.volumeBytes = try bytesSparedByVolume(control) ?? .max
    return limit
  }

  /// The maximum size that keeps the free space floor, or `nil` if the floor does not matter or the size is unknown.
  private func bytesSparedByVolume(_ control: ControlFile) throws -> Int64? {
    let configuration = core.configuration
    guard configuration.limits.size != nil, configuration.limits.freeSpaceFloor != 0, control.countersAreKnown,
      let usage = control.counters, let open = try core.root.opened()
    else { return nil }
    return try SpaceBudget(of: open.directory, floor: configuration.limits.freeSpaceFloor)
      .spares(forOneHolding: usage.bytes)
  }

  /// Makes a complete collection, which fills the queue.
  private func findCandidates(
    _ options: BlobStore.CollectionOptions, _ queue: inout EvictionQueue, _ control: ControlFile?,
    _ isGoalWanted: @escaping () -> Bool
  ) throws -> CollectionRun {
    let run = CollectionRun(
      core, options, control, SizePass.Aim(isSpared: isSpared, isGoalWanted: isGoalWanted, fillsQueue: true))
    _ = try run.collect()
    queue = run.sizes.queue ?? EvictionQueue()
    return run
  }
}

// MARK: - Ahead of the stores

extension LimitRun {
  /// Fills the queue before stores need room, and returns whether that required a walk. It walks only if the queue does
  /// not fill the recycling bin. For stores that need room during the walk, records of the existing queue are evicted.
  func lookAhead(_ queue: inout EvictionQueue) throws -> Bool {
    guard let usage = try core.usageEstimate(), let batch = EvictionBatch(core, usage), queue.areFewer(thanFill: batch)
    else { return false }
    var options = options
    options.looksAtEverything = true
    try CollectorLock(of: core).hold(options) { control in
      let run = CollectionRun(
        core, options, control, SizePass.Aim(isSpared: isSpared, fillsQueue: true, looksAhead: true))
      var known = queue
      run.tally.meanwhile = { [unowned tally = run.tally] in
        evictMeanwhile(&known, options, control, tally)
      }
      defer {
        run.tally.meanwhile = nil
        queue = run.sizes.queue.flatMap { $0.isEmpty ? nil : $0 } ?? known
      }
      try run.lookAhead()
    }
    queue.areAll = queue.areFewer(thanFill: batch)
    return true
  }

  /// Evicts records of the queue during a walk ahead if stores have exceeded the limits in the meantime.
  private func evictMeanwhile(
    _ known: inout EvictionQueue, _ options: BlobStore.CollectionOptions, _ control: ControlFile?,
    _ tally: CollectionTally
  ) {
    guard !known.isEmpty, let control, let limit = StoreLimit(of: core), let usage = control.counters,
      limit.isExceeded(by: usage)
    else { return }
    let run = CollectionRun(core, options, control, SizePass.Aim(isSpared: isSpared))
    do {
      try run.evict(&known) { limit }
    } catch {
      tally.noteFailure(error)
    }
    tally.secondsMeanwhile += run.report.seconds
  }
}

// MARK: - A full volume

extension LimitRun {
  /// Makes a collection for a file that does not fit on the volume, or returns `nil` if `isMade` reports that another
  /// thread has made room. With a limit, it evicts at least the size of the file, and at least down to the target.
  func makeRoom(for byteCount: Int64, unless isMade: () -> Bool) throws -> BlobStore.CollectionReport? {
    try CollectorLock(of: core).hold(options) { control -> BlobStore.CollectionReport? in
      if isMade() { return nil }
      let aim = SizePass.Aim(isSpared: isSpared, roomWanted: byteCount)
      return try CollectionRun(core, options, control, aim).collect()
    }
  }
}

extension StoreLimit {
  init?(of core: StoreCore) { self.init(core.configuration, quarantineBytes: Records(core).quarantineByteLimit) }
}
