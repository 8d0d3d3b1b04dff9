internal import BlobRecord
internal import Posix

/// The work of a thread that keeps the limits: it evicts the records known to be next, or makes a collection to find
/// them.
struct LimitRun {
  let core: StoreCore
  let options: BlobStore.CollectionOptions
  /// Tells of records that must not be evicted, by their digests.
  let isSpared: (UInt64) -> Bool

  /// What has become of the limits, as far as a run can tell.
  enum Outcome {
    case kept
    /// The limits are kept, but not the room that writers have reserved.
    case shortOfReserve
    /// What is left is locked, or cannot be removed.
    case short
  }

  /// Removes records until the directory is within its limits.
  ///
  /// It begins with the records that an earlier walk has found to be next. If they are too few, it makes a whole
  /// collection, which finds others. Known records go without the collector's lock, because each is judged again under
  /// its stripe. So a process that is stopped in the middle of a collection keeps no other from making room.
  ///
  /// - Parameter room: what to leave free; asked again and again.
  func keepLimits(_ queue: inout EvictionQueue, room: @escaping () -> WantedRoom) throws -> Outcome {
    guard let configured = StoreLimit(of: core) else { return .kept }
    // What packs take beyond what the limit permits counts against it.
    let permitted = try bytesThatPacksPermit()
    let limit = configured.within(permitted)
    if try isKept(afterEvicting: &queue, limit, room: room) { return .kept }
    return try CollectorLock(of: core).hold(options) { control in
      guard let control else { return .kept }
      let limit = try withinVolume(limit, control)
      func isKept() -> Bool { control.counters.map { !limit.leavingFree(room().bytes).isExceeded(by: $0) } ?? false }
      // Another process may have made room meanwhile.
      if control.countersAreKnown, isKept() { return .kept }
      let goal = limit.leavingFree(room().bytes)
      // A store that has found room meanwhile may have been met by the walk, and would be there twice.
      func isGoalWanted() -> Bool { room().bytes > 0 || permitted != nil }
      var options = options
      if let bytes = goal.bytes { options.goal = .byteCount(bytes) }
      var run = try findCandidates(options, &queue, control, isGoalWanted)
      let suffices = !limit.leavingFree(room().bytes).isExceeded(by: run.tally.left)
      if suffices, run.tally.unmeasured == 0, !run.report.wasStopped, !isKept() {
        // The counters say too much. Another process or a power cut has removed records, or a record that was stored
        // during the walk counts twice. By those counters, even more would be evicted. A whole look
        // corrects them, as far as what others add and remove meanwhile lets it tell.
        options.looksAtEverything = true
        run = try findCandidates(options, &queue, control, isGoalWanted)
      }
      if run.report.wasStopped { return .kept }
      // The unseen files may be those above the limit: another try is of no use for a while.
      if run.tally.unmeasured > 0, !isKept() { return .short }
      if !control.countersAreKnown { return .short }
      return outcome(limit, room(), run.tally.left)
    }
  }

  /// Makes a whole collection where the packs take too much on the medium: what has expired goes before the rest is moved.
  ///
  /// - Returns: the bytes of records that may be there, if they take too much even then.
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
    // A store that waits for room needs less than that, if need be.
    let filled = left + BlobStore.UsageEstimate(records: 1, bytes: room.waiting)
    return limit.isFarExceeded(by: filled, isKnown: true) ? .short : .kept
  }

  /// Evicts the known records, as far as needed.
  ///
  /// - Returns: whether the work is done: the limits are kept, or this was stopped.
  private func isKept(
    afterEvicting queue: inout EvictionQueue, _ limit: StoreLimit, room: () -> WantedRoom
  ) throws -> Bool {
    guard let open = try core.root.opened(), let control = core.countersFile(of: open), control.countersAreKnown else {
      return false
    }
    let limit = try withinVolume(limit, control)
    func isKept() -> Bool { control.counters.map { !limit.leavingFree(room().bytes).isExceeded(by: $0) } ?? false }
    // Another process may have made room meanwhile.
    if isKept() { return true }
    guard !queue.isEmpty else { return false }
    let run = CollectionRun(core, options, control, SizePass.Aim(isSpared: isSpared))
    try run.evict(&queue) { limit.leavingFree(room().bytes) }
    return run.report.wasStopped || isKept()
  }

  /// The limit, with what the volume can spare.
  private func withinVolume(_ limit: StoreLimit, _ control: ControlFile) throws -> StoreLimit {
    var limit = limit
    limit.volumeBytes = try bytesSparedByVolume(control) ?? .max
    return limit
  }

  /// The bytes that may lie in the directory for the free space floor to be kept; nil where the floor does not matter,
  /// or the bytes are not known.
  private func bytesSparedByVolume(_ control: ControlFile) throws -> Int64? {
    let configuration = core.configuration
    guard configuration.limits.size != nil, configuration.limits.freeSpaceFloor != 0, control.countersAreKnown,
      let usage = control.counters, let open = try core.root.opened()
    else { return nil }
    return try SpaceBudget(of: open.directory, floor: configuration.limits.freeSpaceFloor)
      .spares(forOneHolding: usage.bytes)
  }

  /// Makes a whole collection, which finds the records that are next to go.
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
  /// Finds the records that are next to go ahead of the stores that need room.
  ///
  /// It walks only if the known ones do not fill the recycling bin. Stores that need room during the walk get it from
  /// those.
  ///
  /// - Returns: whether a walk was made for it.
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

  /// Evicts known records during a walk that looks ahead, if stores have exceeded the limits since.
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
  /// Makes a collection for a file that finds no room on the volume.
  ///
  /// Under a limit, it evicts as much as the file takes. It also goes down to the target, as if the limit were
  /// exceeded.
  ///
  /// - Parameter isMade: asked once no other collection can run: whether another thread has made room meanwhile.
  /// - Returns: nil if one has.
  func makeRoom(for byteCount: Int64, unless isMade: () -> Bool) throws -> BlobStore.CollectionReport? {
    try CollectorLock(of: core).hold(options) { control -> BlobStore.CollectionReport? in
      if isMade() { return nil }
      let aim = SizePass.Aim(isSpared: isSpared, roomWanted: byteCount)
      return try CollectionRun(core, options, control, aim).collect()
    }
  }
}

extension StoreLimit {
  /// The limit of a store's configuration; nil without one.
  init?(of core: StoreCore) { self.init(core.configuration, quarantineBytes: core.quarantineByteLimit) }
}
