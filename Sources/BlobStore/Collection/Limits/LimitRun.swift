internal import BlobRecord
internal import Posix

/// What a thread does that keeps the limits: it evicts what is known to be next, or makes a collection that finds out.
struct LimitRun {
  let core: StoreCore
  let options: BlobStore.CollectionOptions
  /// Tells of records that must not be evicted, by their digests.
  let isSpared: (UInt64) -> Bool

  /// Removes what has to go for the directory to be within its limits.
  ///
  /// First the records that an earlier walk has found to be next, if there are enough of them; else by a whole collection,
  /// which finds others. Known records go without the collector's lock, because each is judged again under its stripe.
  /// So a process that is stopped in the middle of a collection keeps no other from making room.
  ///
  /// - Parameter room: bytes to be left free, for a record that waits for them; asked again and again.
  /// - Returns: whether the limits are kept now, as far as this can tell.
  func keepLimits(_ queue: inout EvictionQueue, room: @escaping () -> Int64) throws -> Bool {
    guard let limit = core.limit else { return true }
    if try isKept(afterEvicting: &queue, limit, room: room) { return true }
    return try core.withCollectorLock(options) { control in
      guard let control else { return true }
      let limit = try withinVolume(limit, control)
      func isKept() -> Bool { control.counters.map { !limit.leavingFree(room()).isExceeded(by: $0) } ?? false }
      // Another process may have made room meanwhile.
      if control.countersAreKnown, isKept() { return true }
      let goal = limit.leavingFree(room())
      // A store that has found room meanwhile may have been met by the walk, and would be there twice.
      func isGoalWanted() -> Bool { room() > 0 }
      var options = options
      if let bytes = goal.bytes { options.goal = .byteCount(bytes) }
      var run = try findCandidates(options, &queue, control, isGoalWanted)
      let suffices = !limit.leavingFree(room()).isExceeded(by: run.tally.left)
      if suffices, run.tally.unmeasured == 0, !run.report.wasStopped, !isKept() {
        // The counters say too much: another process has removed records, a power cut has, or what was stored during the
        // walk, and met by it, counts twice. By those counters, what is left would be evicted. A whole look corrects them.
        options.looksAtEverything = true
        run = try findCandidates(options, &queue, control, isGoalWanted)
      }
      if run.report.wasStopped { return true }
      // What was not seen may be what is too much: another try is of no use for a while.
      if run.tally.unmeasured > 0, !isKept() { return false }
      let left = run.tally.left
      let room = room()
      if !control.countersAreKnown { return false }
      // A store that waits for room needs less than that, if need be.
      let filled = left + BlobStore.UsageEstimate(records: 1, bytes: room)
      return !limit.leavingFree(room).isExceeded(by: left)
        || room > 0 && !limit.isFarExceeded(by: filled, isKnown: true)
    }
  }

  /// Evicts what is known, as far as that is needed.
  ///
  /// - Returns: whether that is all there is to do: the limits are kept, or this was stopped.
  private func isKept(afterEvicting queue: inout EvictionQueue, _ limit: StoreLimit, room: () -> Int64) throws -> Bool {
    guard let open = try core.root.opened(), let control = core.countersFile(of: open), control.countersAreKnown else {
      return false
    }
    let limit = try withinVolume(limit, control)
    func isKept() -> Bool { control.counters.map { !limit.leavingFree(room()).isExceeded(by: $0) } ?? false }
    // Another process may have made room meanwhile.
    if isKept() { return true }
    guard !queue.isEmpty else { return false }
    let run = CollectionRun(core, options, control, SizePass.Aim(isSpared: isSpared))
    try run.evict(&queue) { limit.leavingFree(room()) }
    return run.report.wasStopped || isKept()
  }

  /// The limit, with what the volume can spare.
  private func withinVolume(_ limit: StoreLimit, _ control: ControlFile) throws -> StoreLimit {
    var limit = limit
    limit.volumeBytes = try bytesSparedByVolume(control) ?? .max
    return limit
  }

  /// What may lie in the directory for the free space floor to be kept; nil where that does not matter, or is not known.
  private func bytesSparedByVolume(_ control: ControlFile) throws -> Int64? {
    let configuration = core.configuration
    guard configuration.limits.size != nil, configuration.limits.freeSpaceFloor != 0, control.countersAreKnown,
      let usage = control.counters, let open = try core.root.opened()
    else { return nil }
    return try VolumeShare(of: open.directory, floor: configuration.limits.freeSpaceFloor)
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
  /// It walks only if those that are known do not fill the recycling bin. What stores need during the walk, they get from
  /// those.
  ///
  /// - Returns: whether a walk was made for it.
  func lookAhead(_ queue: inout EvictionQueue) throws -> Bool {
    guard let usage = try core.usageEstimate(), let batch = EvictionBatch(core, usage), queue.areFewer(thanFill: batch)
    else { return false }
    var options = options
    options.looksAtEverything = true
    try core.withCollectorLock(options) { control in
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

  /// Evicts, during a walk that looks ahead, what is known already, if stores have exceeded the limits since.
  private func evictMeanwhile(
    _ known: inout EvictionQueue, _ options: BlobStore.CollectionOptions, _ control: ControlFile?,
    _ tally: CollectionTally
  ) {
    guard !known.isEmpty, let control, let limit = core.limit, let usage = control.counters,
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
  /// Where there is a limit, it evicts as much as the file takes, and as much as one does that finds the limit exceeded,
  /// whether it is or not.
  ///
  /// - Parameter isMade: asked once no other collection can run: whether another thread has made room meanwhile.
  /// - Returns: nil if one has.
  func makeRoom(for byteCount: Int64, unless isMade: () -> Bool) throws -> BlobStore.CollectionReport? {
    try core.withCollectorLock(options) { control -> BlobStore.CollectionReport? in
      if isMade() { return nil }
      let aim = SizePass.Aim(isSpared: isSpared, roomWanted: byteCount)
      return try CollectionRun(core, options, control, aim).collect()
    }
  }
}

extension StoreCore {
  /// What the configuration asks for; nil without a limit.
  var limit: StoreLimit? { StoreLimit(configuration, quarantineBytes: quarantineByteLimit) }
}
