internal import BlobRecord
internal import Posix

/// Evicts records, in the order of `EvictionOrder`, if the remaining ones exceed the limits.
///
/// The expiry pass calls `measure` for the records that stay; then this pass runs.
final class SizePass {
  /// The targets in addition to the limits.
  struct Aim {
    /// A closure that returns whether the record with a digest must not be evicted.
    var isSpared: (UInt64) -> Bool = { _ in false }
    /// A closure that returns whether the goal in bytes still applies after the walk.
    var isGoalWanted: () -> Bool = { true }
    /// The size of a file for which the volume has no room. With a limit, at least as many bytes are freed.
    var roomWanted: Int64?
    var fillsQueue = false
    /// A Boolean value that indicates whether the pass only finds the next records and evicts nothing.
    var looksAhead = false
  }

  let core: StoreCore
  private let options: BlobStore.CollectionOptions
  let tally: CollectionTally
  let remover: RecordRemover
  private let rule: ExpiryRule
  let aim: Aim
  private(set) var order: EvictionOrder
  /// A Boolean value that indicates whether the remaining records are measured for an eviction.
  private let hasLimit: Bool
  private var plan = EvictionPlan<EvictionCandidate>()
  /// The records that are evicted first, or `nil` if no eviction is expected.
  private var firstToEvict: EvictionCandidates?
  /// The queue of the next records, or `nil` if it is not filled.
  private(set) var queue: EvictionQueue?
  /// The evictable packed records by chunk, or `nil` if no eviction is expected.
  var packed: ChunkStandings?
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

  /// A dry run empties no chunks, a full volume has no room for moved records, and a trim frees only its amount.
  private static func mayEvictByChunks(_ options: BlobStore.CollectionOptions, _ aim: Aim) -> Bool {
    let isTrim = options.goal?.isAmount == true && !aim.fillsQueue
    return !options.dryRun && !isTrim && aim.roomWanted == nil && !aim.looksAhead
  }

  /// A Boolean value that indicates whether the pass needs each record, because some are evicted or remembered.
  var looksForCandidates: Bool { firstToEvict != nil }

  func run() throws {
    guard hasLimit else { return }
    if aim.looksAhead { return rememberNext() }
    if tally.report.wasCutShort { try measureAll() }
    guard var excess = try excess() else { return }
    if tally.passedOver > 0, !tally.report.wasCutShort {
      // Subdirectories that were skipped must be walked after all to determine the ages of their records.
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

  /// Evicts records if the finished walk has found enough candidates. Returns `false` if another walk is required.
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
    // All of these records are evicted, so they are sorted by subdirectory to open the fewest directories.
    for candidate in candidates[..<count].sorted(by: { $0.path.subdirectory < $1.path.subdirectory })
    where !tally.isStopped {
      tally.advance()
      evict(candidate, in: subdirectories)
    }
    // Evict more candidates to make up for the ones that could not be removed.
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

  /// Fills the queue with the next records if the walk has returned all records. Records above the limit are left to
  /// the next store, which evicts them in batches.
  private func rememberNext() {
    guard tally.passedOver == 0, !tally.isStopped, var firstToEvict, firstToEvict.isUsable else { return }
    self.firstToEvict = nil
    for candidate in firstToEvict.take() { queue?.add(candidate) }
    queue?.seal(keeping: queueCount)
  }

  /// The maximum length of the queue. After more evictions than that, other records would be next.
  private var queueCount: Int64 {
    core.configuration.limits.eviction == .oldest ? .max : max(tally.report.recordsAfter / 4, EvictionBatch.perBin * 4)
  }

  private func evictByWalking(_ open: OpenRoot) throws {
    var needsWalk = true
    while needsWalk {
      tally.begin(.size)
      guard let walk = try Records(core).walk() else { return }
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

  struct Excess {
    var bytes: Int64
    var records: Int64
  }

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

  /// The cause of an eviction; if there are several, the first one.
  private func evictionCause(over target: Int64?) -> EvictionCause {
    if aim.roomWanted != nil { return .freeSpace }
    let limits = core.configuration.limits
    if let limit = limits.size, let target, tally.report.bytesAfter > target {
      return target < limit ? .freeSpace : .sizeLimit
    }
    if let limit = limits.count, tally.report.recordsAfter > limit { return .countLimit }
    // The goal of a store's collection is its size limit minus the room that stores are waiting for.
    return aim.fillsQueue ? .sizeLimit : .trim
  }

  private func candidate(_ entry: RecordEntry) -> EvictionCandidate? {
    guard isEvictable(entry.state), let header = entry.header, let path = entry.path, !aim.isSpared(path.digest),
      !isCountedAsRemoved(entry)
    else { return nil }
    return EvictionCandidate(path, header, order.standing(of: header, path.digest), entry.size, entry.fileState)
  }

  /// Most records stay, so nothing is allocated for them.
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
    // The plan may have been completed before this walk.
    case .evict where !plan.isDone: evict(candidate, in: walk, open)
    case .keep where plan.isNext(candidate.place): queue?.add(candidate)
    case .evict, .keep, .later: break
    }
  }

  /// The bytes that may stay: the limit or what the volume can spare, whichever is less, or `nil` without a limit.
  private func byteTarget() throws -> Int64? {
    guard let limit = core.configuration.limits.size else { return nil }
    guard let open = try core.root.opened() else { return limit }
    let budget = try SpaceBudget(of: open.directory, floor: core.configuration.limits.freeSpaceFloor)
    // Records that a dry run has counted as removed still exist.
    let spared = budget.spares(
      forOneHolding: tally.report.bytesAfter, freed: options.dryRun ? tally.report.bytesFreed : 0)
    return min(limit, max(0, spared - room(within: budget)))
  }

  /// The room for a file that does not fit on the volume, or 0 if even an empty directory would not make room for it.
  private func room(within budget: SpaceBudget) -> Int64 {
    guard let roomWanted = aim.roomWanted, budget.mayHold(roomWanted, onceFreed: tally.report.bytesAfter) else {
      return 0
    }
    return roomWanted
  }

  /// The bytes to evict for a file that does not fit on the volume, or 0 if that would not make room. They exceed the
  /// file's size, so that the next store does not find the volume full.
  private func excess(for byteCount: Int64) throws -> Int64 {
    guard let open = try core.root.opened() else { return 0 }
    guard try room(within: SpaceBudget(of: open.directory, floor: 0)) > 0 else { return 0 }
    let portion = tally.report.bytesAfter - tally.report.bytesAfter.share(core.configuration.limits.evictionTarget)
    return max(byteCount, portion).saturatingSubtracting(tally.report.bytesFreed)
  }

  /// The amount to evict, or 0 if the limit is not exceeded. It exceeds the difference, so that the next store does
  /// not need a collection.
  private func excess(of amount: Int64, over limit: Int64) -> Int64 {
    amount > limit ? amount - limit.share(core.configuration.limits.evictionTarget) : 0
  }
}

// MARK: - Measuring

extension SizePass {
  /// Measures a record that the expiry pass leaves. A packed record has an index `entry`, by which it may be evicted
  /// with others of its chunk.
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

  /// Marks a record that was stamped by a clock that was ahead, so that its age is unknown.
  func distrust(_ digest: UInt64) { order.distrust(digest) }

  /// An expired record may have expired after the expiry pass, or have been left by a pass that was cut short. A
  /// complete dry run has already counted an expired record as removed.
  func isEvictable(_ state: RecordState) -> Bool {
    switch state {
    case .live: true
    case .expired: !options.dryRun || tally.report.wasCutShort
    case .locked, .damaged, .streaming, .unreadable: false
    }
  }

  /// Returns a Boolean value that indicates whether a dry run that was cut short has counted the record as removed.
  private func isCountedAsRemoved(_ entry: RecordEntry) -> Bool {
    guard let walked = tally.walked, let path = entry.path, walked.contains(path, isPacked: entry.packed != nil) else {
      return false
    }
    return rule.cause(toRemove: entry) != nil
  }

  /// Measures all records after a pass that has not visited all of them.
  private func measureAll() throws {
    plan = EvictionPlan()
    packed = Self.mayEvictByChunks(options, aim) ? ChunkStandings() : nil
    firstToEvict = EvictionCandidates(capacity: options.rememberedRecords)
    tally.report.bytesAfter = quarantineBytes
    tally.report.recordsAfter = 0
    guard let walk = try Records(core).walk() else { return }
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
  /// Evicts a record that a walk has just returned.
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

  /// Evicts a record that a walk returned some time ago.
  func evict(_ candidate: EvictionCandidate, in subdirectories: LastSubdirectory) {
    do {
      if try isBusy(evicting: candidate, in: subdirectories) { tally.busy.add(.candidate(candidate)) }
    } catch {
      tally.noteFailure(error)
    }
  }

  /// Evicts a record that was busy, unless others have been evicted in its place. Returns whether it is still busy.
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
