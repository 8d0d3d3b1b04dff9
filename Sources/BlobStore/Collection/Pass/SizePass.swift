internal import BlobRecord
internal import Posix

/// Evicts records, in the order of `EvictionOrder`, when more are left than may stay.
///
/// The expiry pass has it `measure` the records that stay. Then it is run.
final class SizePass {
  /// The demands on it beside the limits.
  struct Aim {
    /// Tells of records that must not be evicted, by their digests.
    var isSpared: (UInt64) -> Bool = { _ in false }
    /// Whether the goal in bytes still is one once the walk has ended.
    var isGoalWanted: () -> Bool = { true }
    /// Bytes for which the volume has no room, and which must be freed where there is a limit.
    var roomWanted: Int64?
    /// Whether those that are next to go are remembered.
    var fillsQueue = false
    /// Whether it only finds those that are next to go, and evicts none.
    var looksAhead = false
  }

  let core: StoreCore
  private let options: BlobStore.CollectionOptions
  let tally: CollectionTally
  let remover: RecordRemover
  private let rule: ExpiryRule
  let aim: Aim
  private(set) var order: EvictionOrder
  /// Whether the records that stay are measured, because some may have to be evicted.
  private let hasLimit: Bool
  private var plan = EvictionPlan<EvictionCandidate>()
  /// The records that are the first to be evicted; nil if it seems that none has to be.
  private var firstToEvict: EvictionCandidates?
  /// Those that are next to go; nil where they are not remembered.
  private(set) var queue: EvictionQueue?
  /// Packed records that may go, by chunks, where it seems that some have to.
  var packed: ChunkStandings?
  /// The bytes in the quarantine.
  var quarantineBytes: Int64 = 0

  init(_ context: PassContext, _ aim: Aim) {
    core = context.core
    options = context.options
    tally = context.tally
    remover = context.remover
    rule = context.rule
    self.aim = aim
    order = EvictionOrder(of: core, context.control, at: context.now)
    let limit = StoreLimit(of: core)
    let isKept = context.control.flatMap { control in
      control.countersAreKnown ? control.counters.map { limit?.isExceeded(by: $0) == false } : nil
    }
    let hasAmount = options.goal?.isAmount ?? false
    hasLimit = limit != nil || hasAmount
    let mayEvict = hasAmount || (limit != nil && (isKept != true || aim.roomWanted != nil))
    firstToEvict = mayEvict || aim.looksAhead ? EvictionCandidates(capacity: options.rememberedRecords) : nil
    queue = aim.fillsQueue ? EvictionQueue() : nil
    packed = mayEvict && Self.mayEvictByChunks(options, aim) ? ChunkStandings() : nil
  }

  /// A dry run empties no chunk, and a full volume has no room for what would have to move. A trim frees what it was told to,
  /// and no more.
  private static func mayEvictByChunks(_ options: BlobStore.CollectionOptions, _ aim: Aim) -> Bool {
    let isTrim = options.goal?.isAmount == true && !aim.fillsQueue
    return !options.dryRun && !isTrim && aim.roomWanted == nil && !aim.looksAhead
  }

  /// A Boolean value that indicates whether the pass has to know of each record, because some are evicted or remembered.
  var looksForCandidates: Bool { firstToEvict != nil }

  func run() throws {
    guard hasLimit else { return }
    if aim.looksAhead { return rememberNext() }
    if tally.report.wasCutShort { try measureAll() }
    guard var excess = try excess() else { return }
    if tally.passedOver > 0, !tally.report.wasCutShort {
      // Subdirectories that were passed over must be looked at after all, for the age of their records.
      try measureAll()
      guard let measured = try self.excess() else { return }
      excess = measured
    }
    guard let open = try core.root.opened() else { return }
    // Evicting whole chunks changes the order, so the queue is no longer valid.
    if try evictByChunks(&excess, open) { queue = nil }
    guard !tally.isStopped, plan.start(freeing: excess.bytes, records: excess.records) else { return }
    if evictFirst(open) { return }
    try evictByWalking(open)
  }

  /// Removes the records that have to go, if the walk that was made has found them all.
  ///
  /// - Returns: false if another walk is needed.
  private func evictFirst(_ open: OpenRoot) -> Bool {
    guard var firstToEvict else { return false }
    self.firstToEvict = nil
    let isComplete = firstToEvict.isComplete
    guard isComplete || firstToEvict.suffice(forBytes: plan.bytesToFree, records: plan.recordsToFree) else {
      return false
    }
    tally.begin(.size)
    let candidates = firstToEvict.take()
    var (bytes, records) = (plan.bytesToFree, plan.recordsToFree)
    let count = candidates.prefix { candidate in
      defer {
        bytes.saturatingAdd(-candidate.size.bytes)
        records -= 1
      }
      return bytes > 0 || records > 0
    }.count
    let subdirectories = LastSubdirectory(open)
    // All of these have to go, so that their order is that of the fewest open directories.
    for candidate in candidates[..<count].sorted(by: { $0.path.subdirectory < $1.path.subdirectory })
    where !tally.isStopped {
      tally.advance()
      evict(candidate, in: subdirectories)
    }
    // Evict more candidates to make up for those that could not be removed.
    for candidate in candidates[count...] {
      guard !plan.isDone, !tally.isStopped else {
        queue?.add(candidate)
        continue
      }
      evict(candidate, in: subdirectories)
    }
    queue?.seal(keeping: queueCount)
    return plan.isDone || isComplete || tally.isStopped
  }

  /// Remembers the records that are next in the order of eviction, if the walk met all records. Records above the limit are
  /// left to the next store, which evicts them in batches.
  private func rememberNext() {
    guard tally.passedOver == 0, !tally.isStopped, var firstToEvict, firstToEvict.isUsable else { return }
    self.firstToEvict = nil
    for candidate in firstToEvict.take() { queue?.add(candidate) }
    queue?.seal(keeping: queueCount)
  }

  /// How many of the next records are worth remembering. Once more of them are gone, others would be next.
  private var queueCount: Int64 {
    core.configuration.limits.eviction == .oldest ? .max : max(tally.report.recordsAfter / 4, EvictionBatch.perBin * 4)
  }

  private func evictByWalking(_ open: OpenRoot) throws {
    var needsWalk = true
    while needsWalk {
      tally.begin(.size)
      guard let walk = try core.walk() else { return }
      walk.skim = { [unowned walk] in
        guard !self.tally.isStopped, self.tally.walked == nil else { return false }
        self.skim($0, in: walk, open)
        return true
      }
      while !tally.isStopped, let item = try walk.next() {
        guard case .record(let entry) = item else { continue }
        tally.advance()
        if let candidate = candidate(entry) { decide(candidate, in: walk, open) }
      }
      walk.skim = nil
      let rest = plan.finishWalk()
      let subdirectories = LastSubdirectory(open)
      for (index, candidate) in rest.candidates.enumerated() {
        guard !plan.isDone, !tally.isStopped else {
          rest.candidates[index...].forEach { queue?.add($0) }
          break
        }
        evict(candidate, in: subdirectories)
      }
      needsWalk = rest.needsWalk && !tally.isStopped
    }
    queue?.seal(keeping: queueCount)
  }

  /// What has to go.
  struct Excess {
    var bytes: Int64
    var records: Int64
  }

  /// - Returns: nil if no limit is exceeded.
  private func excess() throws -> Excess? {
    let target = try byteTarget()
    var bytes = target.map { excess(of: tally.report.bytesAfter, over: $0) } ?? 0
    var records = core.configuration.limits.count.map { excess(of: tally.report.recordsAfter, over: $0) } ?? 0
    if let limit = options.goal?.byteLimit, aim.isGoalWanted() { bytes = max(bytes, tally.report.bytesAfter - limit) }
    if let roomWanted = aim.roomWanted { bytes = max(bytes, try excess(for: roomWanted)) }
    if let limit = options.goal?.recordLimit { records = max(records, tally.report.recordsAfter - limit) }
    guard !tally.isStopped, bytes > 0 || records > 0 else { return nil }
    tally.evictions.cause = evictionCause(over: target)
    return Excess(bytes: bytes, records: records)
  }

  /// The cause of an eviction: the first of several.
  private func evictionCause(over target: Int64?) -> EvictionCause {
    if aim.roomWanted != nil { return .freeSpace }
    let limits = core.configuration.limits
    if let limit = limits.size, let target, tally.report.bytesAfter > target {
      return target < limit ? .freeSpace : .sizeLimit
    }
    if let limit = limits.count, tally.report.recordsAfter > limit { return .countLimit }
    // The goal of a store's collection is its size limit, less what stores wait for.
    return aim.fillsQueue ? .sizeLimit : .trim
  }

  private func candidate(_ entry: RecordEntry) -> EvictionCandidate? {
    guard isEvictable(entry.state), let header = entry.header, let path = entry.path, !aim.isSpared(path.digest),
      !isCountedAsRemoved(entry)
    else { return nil }
    return EvictionCandidate(path, header, order.standing(of: header, path.digest), entry.size, entry.fileState)
  }

  /// Almost all records stay: nothing is allocated for them.
  private func skim(_ record: RecordGlance, in walk: RecordWalk, _ open: OpenRoot) {
    tally.advance()
    let standing = order.standing(of: record.header, record.digest)
    guard isEvictable(record.state), plan.concerns(standing.place), !aim.isSpared(record.digest),
      let path = walk.skimmedPath
    else { return }
    decide(EvictionCandidate(path, record.header, standing, record.size, record.fileState), in: walk, open)
  }

  private func decide(_ candidate: EvictionCandidate, in walk: RecordWalk, _ open: OpenRoot) {
    switch plan.decide(candidate.place, bytes: candidate.size.bytes, candidate) {
    // Some may have gone before this walk.
    case .evict where !plan.isDone: evict(candidate, in: walk, open)
    case .keep where plan.isNext(candidate.place): queue?.add(candidate)
    case .evict, .keep, .later: break
    }
  }

  /// Bytes that may stay: the limit, or what the volume can spare, whichever is less; nil without a limit.
  private func byteTarget() throws -> Int64? {
    guard let limit = core.configuration.limits.size else { return nil }
    guard let open = try core.root.opened() else { return limit }
    let budget = try SpaceBudget(of: open.directory, floor: core.configuration.limits.freeSpaceFloor)
    // Records that a dry run would have removed are still there.
    let spared = budget.spares(
      forOneHolding: tally.report.bytesAfter, freed: options.dryRun ? tally.report.bytesFreed : 0)
    return min(limit, max(0, spared - room(within: budget)))
  }

  /// The room for a file that finds none; 0 if even an empty directory would leave the volume too little.
  private func room(within budget: SpaceBudget) -> Int64 {
    guard let roomWanted = aim.roomWanted, budget.mayHold(roomWanted, onceFreed: tally.report.bytesAfter) else {
      return 0
    }
    return roomWanted
  }

  /// The bytes that have to go for a file that finds no room; 0 if that would not make room. They are more than the
  /// file takes, so that the next store does not find the volume full.
  private func excess(for byteCount: Int64) throws -> Int64 {
    guard let open = try core.root.opened() else { return 0 }
    guard try room(within: SpaceBudget(of: open.directory, floor: 0)) > 0 else { return 0 }
    let portion = tally.report.bytesAfter - tally.report.bytesAfter.share(core.configuration.limits.evictionTarget)
    return max(byteCount, portion).saturatingSubtracting(tally.report.bytesFreed)
  }

  /// The amount that has to go; 0 where the limit is kept. It is more than the excess, so that the next store does not
  /// call for the next collection.
  private func excess(of amount: Int64, over limit: Int64) -> Int64 {
    amount > limit ? amount - limit.share(core.configuration.limits.evictionTarget) : 0
  }
}

// MARK: - Measuring

extension SizePass {
  /// A record stays, as far as the expiry pass is concerned.
  ///
  /// - Parameters:
  ///   - entry: the record's in the index, of one that lies in a pack and may go with others of its chunk.
  ///   - path: asked for only if the record may have to go.
  func measure(
    _ header: RecordHeader?, _ state: RecordState, _ size: RecordSize, _ fileState: FileState?, _ digest: UInt64?,
    _ entry: IndexEntry?, _ path: @autoclosure () -> RecordPath?
  ) {
    tally.stays(size)
    guard hasLimit, let header, let digest, isEvictable(state) else { return }
    let standing = order.standing(of: header, digest)
    plan.measure(standing.place, bytes: size.bytes)
    if let entry { packed?.add(entry, at: order.step(of: standing.place), logical: size.bytes) }
    guard firstToEvict?.concerns(standing.place) == true, let path = path() else { return }
    firstToEvict?.add(EvictionCandidate(path, header, standing, size, fileState), plan.histogram)
  }

  /// A record was stamped by a clock that was ahead: nothing is known of its age.
  func distrust(_ digest: UInt64) { order.distrust(digest) }

  /// Whether the size pass may remove the record. It may have expired since the expiry pass, or have been left by one
  /// that was cut short. A record that a dry run has counted as removed is gone for it.
  func isEvictable(_ state: RecordState) -> Bool {
    switch state {
    case .live: true
    case .expired: !options.dryRun || tally.report.wasCutShort
    case .locked, .damaged, .streaming, .unreadable: false
    }
  }

  /// Whether a dry run that was cut short has counted a record as removed, which is still there.
  private func isCountedAsRemoved(_ entry: RecordEntry) -> Bool {
    guard let walked = tally.walked, let path = entry.path, walked.contains(path, isPacked: entry.packed != nil) else {
      return false
    }
    return rule.cause(toRemove: entry) != nil
  }

  /// Counts all records, after a pass that has not looked at all.
  private func measureAll() throws {
    plan = EvictionPlan()
    packed = Self.mayEvictByChunks(options, aim) ? ChunkStandings() : nil
    firstToEvict = EvictionCandidates(capacity: options.rememberedRecords)
    tally.report.bytesAfter = quarantineBytes
    tally.report.recordsAfter = 0
    guard let walk = try core.walk() else { return }
    walk.skim = { [unowned walk] in
      guard !self.tally.isStopped, self.tally.walked == nil else { return false }
      self.measure($0.header, $0.state, $0.size, $0.fileState, $0.digest, $0.packed, walk.skimmedPath)
      return true
    }
    while !tally.isStopped, let item = try walk.next() {
      if case .record(let entry) = item, entry.isMeasured, !isCountedAsRemoved(entry) {
        measure(entry.header, entry.state, entry.size, entry.fileState, entry.path?.digest, nil, entry.path)
      }
    }
  }
}

// MARK: - Evicting

extension SizePass {
  /// Removes a record that a walk has met just now.
  private func evict(_ candidate: EvictionCandidate, in walk: RecordWalk, _ open: OpenRoot) {
    guard !aim.isSpared(candidate.path.digest) else { return }
    do {
      let removal = try remover.remove(
        candidate.path, met: candidate.size, for: .evicted, in: walk, open, if: candidate.isStillEvictable)
      if isBusy(removal, candidate) { tally.busy.add(.candidate(candidate)) }
    } catch {
      tally.noteFailure(error)
    }
  }

  /// Removes a record that was met a while ago.
  func evict(_ candidate: EvictionCandidate, in subdirectories: LastSubdirectory) {
    do {
      if try isBusy(evicting: candidate, in: subdirectories) { tally.busy.add(.candidate(candidate)) }
    } catch {
      tally.noteFailure(error)
    }
  }

  /// Removes a record that was busy when it was met, unless later ones in the order have been evicted for it.
  ///
  /// - Returns: whether another change still has its stripe.
  func isStillBusy(_ candidate: EvictionCandidate, in subdirectories: LastSubdirectory) throws -> Bool {
    try !plan.isDone && isBusy(evicting: candidate, in: subdirectories)
  }

  private func isBusy(evicting candidate: EvictionCandidate, in subdirectories: LastSubdirectory) throws -> Bool {
    guard !aim.isSpared(candidate.path.digest) else { return false }
    let removal = try remover.remove(
      candidate.path, met: candidate.size, for: .evicted, in: subdirectories, if: candidate.isStillEvictable)
    return isBusy(removal, candidate)
  }

  private func isBusy(_ removal: RecordRemover.Removal, _ candidate: EvictionCandidate) -> Bool {
    switch removal {
    case .busy: return true
    case .stays: return false
    case .removed:
      tally.isGone(candidate.size)
      tally.evictions.add(age: candidate.age(at: core.configuration.now()))
      plan.didFree(bytes: candidate.size.bytes)
      return false
    }
  }
}
