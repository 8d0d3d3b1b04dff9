internal import BlobRecord
internal import Posix

/// The size pass: when more is left than may stay, the oldest go.
extension CollectionPass {
  func evict() throws {
    guard hasLimit else { return }
    if looksAhead { return rememberOldest() }
    if report.wasCutShort { try measureAll() }
    if try !startPlan() { return }
    if passedOver > 0, !report.wasCutShort {
      // What was passed over has to be looked at after all, to see how old it is.
      try measureAll()
      if try !startPlan() { return }
    }
    guard let open = try store.root.opened() else { return }
    if evictOldest(open) { return }
    try evictByWalking(open)
  }

  /// Removes what has to go, if it is all known from the walk that was made.
  ///
  /// - Returns: false if another walk is needed.
  private func evictOldest(_ open: OpenRoot) -> Bool {
    guard var oldest else { return false }
    self.oldest = nil
    let isComplete = oldest.isComplete
    guard isComplete || oldest.suffice(forBytes: plan.bytesToFree, records: plan.recordsToFree) else { return false }
    begin(.size)
    let victims = oldest.take()
    var (bytes, records) = (plan.bytesToFree, plan.recordsToFree)
    let count = victims.prefix { victim in
      defer {
        bytes.saturatingAdd(-victim.size.bytes)
        records -= 1
      }
      return bytes > 0 || records > 0
    }.count
    let subdirectories = LastSubdirectory(open)
    // All of these have to go, so that their order is that of the fewest open directories.
    for victim in victims[..<count].sorted(by: { $0.path.subdirectory < $1.path.subdirectory }) where !isStopped {
      advance()
      surviving { try evict(victim, in: subdirectories) }
    }
    // And these for those that were spared.
    for victim in victims[count...] {
      guard !plan.isDone, !isStopped else {
        nextVictims?.add(victim)
        continue
      }
      surviving { try evict(victim, in: subdirectories) }
    }
    nextVictims?.seal()
    return plan.isDone || isComplete || isStopped
  }

  /// The oldest that were met are next, if that was all. What has to go by now, the next store sees to, by portions.
  private func rememberOldest() {
    guard passedOver == 0, !isStopped, var oldest, oldest.isUsable else { return }
    self.oldest = nil
    for victim in oldest.take() { nextVictims?.add(victim) }
    nextVictims?.seal()
  }

  private func evictByWalking(_ open: OpenRoot) throws {
    var needsWalk = true
    while needsWalk {
      begin(.size)
      guard let walk = try store.walk() else { return }
      walk.skim = { [unowned walk] in
        guard !self.isStopped, self.walked == nil else { return false }
        self.skim($0, in: walk, open)
        return true
      }
      while !isStopped, let item = try walk.next() {
        guard case .record(let entry) = item else { continue }
        advance()
        if let victim = victim(entry) { decide(victim, in: walk, open) }
      }
      walk.skim = nil
      let rest = plan.finishWalk()
      let subdirectories = LastSubdirectory(open)
      for (index, victim) in rest.candidates.enumerated() {
        guard !plan.isDone, !isStopped else {
          rest.candidates[index...].forEach { nextVictims?.add($0) }
          break
        }
        surviving { try evict(victim, in: subdirectories) }
      }
      needsWalk = rest.needsWalk && !isStopped
    }
    nextVictims?.seal()
  }

  /// - Returns: whether a limit is exceeded.
  private func startPlan() throws -> Bool {
    var bytes = try byteTarget().map { excess(of: report.bytesAfter, over: $0) } ?? 0
    var records = store.configuration.limits.count.map { excess(of: report.recordsAfter, over: $0) } ?? 0
    if let limit = options.goal?.byteLimit, isGoalWanted() { bytes = max(bytes, report.bytesAfter - limit) }
    if let roomWanted { bytes = max(bytes, try excess(for: roomWanted)) }
    if let limit = options.goal?.recordLimit { records = max(records, report.recordsAfter - limit) }
    guard !isStopped, bytes > 0 || records > 0 else { return false }
    return plan.start(freeing: bytes, records: records)
  }

  private func victim(_ entry: RecordEntry) -> Victim? {
    guard isEvictable(entry.state), let header = entry.header, let path = entry.path, !isSpared(path.digest),
      !isCountedAsRemoved(entry)
    else { return nil }
    return Victim(path, header, usedAt: stamp(of: header), entry.size, entry.fileState)
  }

  /// Almost all records stay: nothing is allocated for them.
  private func skim(_ record: RecordGlance, in walk: RecordWalk, _ open: OpenRoot) {
    advance()
    let time = stamp(of: record.header)
    guard isEvictable(record.state), plan.concerns(time), !isSpared(record.digest), let path = walk.skimmedPath
    else { return }
    decide(Victim(path, record.header, usedAt: time, record.size, record.fileState), in: walk, open)
  }

  private func decide(_ victim: Victim, in walk: RecordWalk, _ open: OpenRoot) {
    switch plan.decide(victim.lastUpdate, bytes: victim.size.bytes, victim) {
    // Some may have gone before this walk.
    case .evict where !plan.isDone: surviving { try evict(victim, in: walk, open) }
    case .keep where plan.isNext(victim.lastUpdate): nextVictims?.add(victim)
    case .evict, .keep, .later: break
    }
  }

  /// Bytes that may stay: the limit, or what the volume can spare, whichever is less; nil without a limit.
  private func byteTarget() throws -> Int64? {
    guard let limit = store.configuration.limits.size else { return nil }
    guard let open = try store.root.opened() else { return limit }
    let share = try VolumeShare(of: open.directory, floor: store.configuration.limits.freeSpaceFloor)
    // What a dry run would have removed is still there.
    let spared = share.spares(
      forOneHolding: report.bytesAfter, freed: options.dryRun ? report.bytesFreed : 0)
    return min(limit, max(0, spared - room(on: share)))
  }

  /// What is to be made for a file that finds none; 0 if the volume would have too little were the directory empty.
  private func room(on share: VolumeShare) -> Int64 {
    guard let roomWanted, share.mayHold(roomWanted, onceFreed: report.bytesAfter) else { return 0 }
    return roomWanted
  }

  /// What has to go for a file that finds no room; 0 if there would be none for it even then. More than it takes, so that
  /// the next store does not find the volume full.
  private func excess(for byteCount: Int64) throws -> Int64 {
    guard let open = try store.root.opened() else { return 0 }
    guard try room(on: VolumeShare(of: open.directory, floor: 0)) > 0 else { return 0 }
    let portion = report.bytesAfter - report.bytesAfter.share(store.configuration.limits.evictionTarget)
    return max(byteCount, portion).saturatingSubtracting(report.bytesFreed)
  }

  /// What has to go; 0 where the limit is kept. More than the excess itself, so that the next store does not call for
  /// the next collection.
  private func excess(of amount: Int64, over limit: Int64) -> Int64 {
    amount > limit ? amount - limit.share(store.configuration.limits.evictionTarget) : 0
  }

  /// Removes a record that a walk has met just now.
  private func evict(_ victim: Victim, in walk: RecordWalk, _ open: OpenRoot) throws {
    let isBusy = try evict(victim) { isDue in
      try walk.withCurrentDirectory {
        try store.removeRecord(at: victim.path, in: $0, of: open, recycling: recycles, if: isDue)
      }
    }
    if isBusy { busy.add(.victim(victim)) }
  }

  /// Removes a record that was met a while ago.
  func evict(_ victim: Victim, in subdirectories: LastSubdirectory) throws {
    if try isBusy(evicting: victim, in: subdirectories) { busy.add(.victim(victim)) }
  }

  /// The same, but comes back to nothing.
  ///
  /// - Returns: whether another change has its stripe.
  func isBusy(evicting victim: Victim, in subdirectories: LastSubdirectory) throws -> Bool {
    try evict(victim) { isDue in
      try store.removeRecord(at: victim.path, subdirectories, recycling: recycles, if: isDue)
    }
  }

  /// Removes a record that is still what it was, and not locked.
  ///
  /// - Returns: whether another change has its stripe.
  private func evict(_ victim: Victim, _ remove: ((RecordEntry) -> Bool) throws -> RecordRemoval) throws -> Bool {
    guard !isSpared(victim.path.digest) else { return false }
    if !options.dryRun {
      let removal = try remove { current in
        (current.state == .live || current.state == .expired) && victim.isStill(current)
      }
      switch removal {
      case .removed(let removed): didRemove(removed, victim.path, .evicted)
      case .busy: return true
      case .stays: return false
      }
    }
    count(.evicted)
    report.bytesFreed.saturatingAdd(victim.size.bytes)
    isGone(victim.size)
    plan.didFree(bytes: victim.size.bytes)
    return false
  }

  /// A record that was counted among those that stay is gone.
  func isGone(_ size: RecordSize) {
    counted.left = counted.left - BlobStore.UsageEstimate(size)
    report.bytesAfter.saturatingAdd(-size.bytes)
    report.recordsAfter -= 1
  }
}

extension Int64 {
  /// A fraction of it, rounded down to a whole number, in thousandths: exact for amounts that no `Double` holds.
  func share(_ fraction: Double) -> Int64 {
    let thousandths = Int64((fraction * 1000).rounded())
    return self / 1000 * thousandths + self % 1000 * thousandths / 1000
  }
}
