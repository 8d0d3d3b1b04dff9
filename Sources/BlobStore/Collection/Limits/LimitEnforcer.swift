internal import Locks
internal import Logging
internal import Posix
internal import Synchronization
internal import SystemPackage

/// An object that keeps a directory within its limits while records are stored.
///
/// When a store has exceeded the limits, the enforcer starts a collection on its own thread, one at a time. Stores that
/// would exceed them by far wait for it. The enforcer uses the store's core, so the store can be released during a
/// collection, which `close` then ends.
final class LimitEnforcer: Sendable {
  /// A period after an unsuccessful collection, during which collections do not start.
  fileprivate struct Cooldown {
    var end: ContinuousClock.Instant
    /// The bytes of the records that were not locked when the period started.
    var evictableBytes: Int64
  }

  private struct State {
    var thread: OwnedThread?
    var isRunning = false
    /// A Boolean value that indicates whether a store has exceeded the limits since the current collection started.
    var isAskedAgain = false
    var isClosed = false
    var collections = 0
    /// A Boolean value that indicates whether the outcome of the last collection was `short`.
    var fellShort = false
    var cooldown: Cooldown?
    var queue = EvictionQueue()
    /// The sizes of the records that wait for room, by the number of the wait.
    var waiting: [Int: Int64] = [:]
    var nextWait = 0
  }

  /// The length of a cooldown as a multiple of the duration of the collection.
  private static let cooldownFactor = 10.0
  private static let shortestCooldown: Duration = .seconds(1)
  /// A walk over this many records takes some 50 milliseconds.
  private static let mostRecordsAfterClose: Int64 = 4096
  /// The microseconds between two checks whether another process's collection has ended.
  private static let pauseBesideOthers = 20_000

  private let configuredLimit: StoreLimit?
  /// The check of the volume's spare space, or `nil` if the space does not matter.
  private let volumeCheck: PeriodicCheck?
  /// The size to which the volume lets the directory grow, as of the last check.
  private let sparedBytes = Atomic(Int64.max)
  /// The check of the packs' disk space, which grows even if records are only replaced.
  private let packCheck: PeriodicCheck?
  let rescue: VolumeRescue
  let reservations = RoomReservations()
  private let core: StoreCore
  private let forkCount = CurrentProcess.forkCount
  private let state = Lock(State())
  private let isStopped = Atomic(false)
  private let lastStored = Atomic<UInt64>(0)

  init(_ core: StoreCore) {
    self.core = core
    configuredLimit = StoreLimit(of: core)
    let limits = core.configuration.limits
    volumeCheck = limits.size != nil && limits.freeSpaceFloor != 0 ? PeriodicCheck(after: 1) : nil
    packCheck = core.configuration.packCheckInterval.map { PeriodicCheck(after: $0) }
    rescue = VolumeRescue(core)
  }

  var limit: StoreLimit? {
    var limit = configuredLimit
    if volumeCheck != nil { limit?.volumeBytes = sparedBytes.load(ordering: .relaxed) }
    return limit
  }

  /// Protects a record that is about to be stored from the collection that it causes.
  func willStore(_ digest: UInt64) {
    if configuredLimit != nil { lastStored.store(digest, ordering: .relaxed) }
  }

  func isSpared(_ digest: UInt64) -> Bool { lastStored.load(ordering: .relaxed) == digest }

  /// Prevents further collections. The current one is completed in a small directory, and otherwise stops after its
  /// current file. It no longer waits for other processes.
  func close() {
    // The process's threads do not exist in a forked child, and one may have held the lock during the fork.
    guard CurrentProcess.forkCount == forkCount else { return }
    isStopped.store(true, ordering: .relaxed)
    let thread = state.withLock { state in
      state.isClosed = true
      return state.thread.take()
    }
    thread?.join()
  }

  var isRunning: Bool { state.withLock { $0.isRunning } }
}

// MARK: - The limits

extension LimitEnforcer {
  /// Starts a collection, or requests another one after the current one. No collection is started if the last one did
  /// not help and nothing has changed since.
  func start(_ usage: BlobStore.UsageEstimate) {
    state.withLock { state in
      guard !state.isRunning else {
        state.isAskedAgain = true
        return
      }
      guard !state.isClosed, !isCoolingDown(state, usage) else { return }
      // The thread has finished.
      state.thread?.join()
      do {
        state.thread = try OwnedThread { [self] in run() }
        state.isRunning = true
      } catch {
        LockOrder.outside {
          core.configuration.logger.warning("no thread for a collection of \(core.root.path): \(error)")
        }
      }
    }
  }

  private func isCoolingDown(_ state: State, _ usage: BlobStore.UsageEstimate) -> Bool {
    guard let cooldown = state.cooldown, ContinuousClock.now < cooldown.end else { return false }
    // If a hundredth of the limit more can be evicted now, another attempt is worthwhile.
    let gain = usage.bytes &- usage.lockedBytes &- cooldown.evictableBytes
    return gain <= (configuredLimit?.bytes ?? .max) / 100
  }

  struct Wait {
    fileprivate var backoff: Backoff
    /// The number of collections that had ended when the wait started.
    fileprivate let collections: Int
    fileprivate let number: Int
  }

  private func askForRoom(_ wait: Wait?, for byteCount: Int64) -> Wait {
    state.withLock { state in
      let asking =
        wait
        ?? Wait(
          backoff: Backoff(timeout: core.configuration.access.lockTimeout), collections: state.collections,
          number: state.nextWait)
      if wait == nil { state.nextWait += 1 }
      // A store asks again if others have used the room that it had found.
      state.waiting[asking.number] = byteCount
      return asking
    }
  }

  /// Ends the request of a store that fails, or that has found room and is about to be counted. Otherwise, a check of
  /// the limits would count its record twice, as stored and as waiting.
  func stopAsking(_ wait: Wait?) {
    guard let wait else { return }
    state.withLock { $0.waiting[wait.number] = nil }
  }

  /// Waits a short time for the collection that makes room. Throws `limitReached` if it makes no room, or not in time.
  func waitForRoom(_ wait: inout Wait?, _ usage: BlobStore.UsageEstimate, for byteCount: Int64) throws(BlobStoreError) {
    var asking = askForRoom(wait, for: byteCount)
    defer { wait = asking }
    // Checked before `start`, because otherwise, a collection would be running at each check.
    let isHopeless = state.withLock { state in
      state.fellShort && !state.isRunning && (state.collections > asking.collections || isCoolingDown(state, usage))
    }
    guard !isHopeless else {
      throw BlobStoreError(
        .limitReached, "what the directory holds is locked or cannot be removed, and is as much as may be",
        path: core.root.path)
    }
    start(usage)
    guard asking.backoff.wait() else {
      throw BlobStoreError(
        .limitReached, "no collection has made room for \(core.configuration.access.lockTimeout)",
        path: core.root.path)
    }
  }

  private func room() -> WantedRoom {
    WantedRoom(
      waiting: state.withLock { $0.waiting.values.max() ?? 0 },
      reserved: reservations.room(within: configuredLimit?.bytes ?? .max))
  }

  /// Starts a collection if the room that writers have reserved is not available.
  func makeReservedRoom() {
    // If the counters cannot be read, the commit reports that.
    guard let limit, let usage = try? core.usageEstimate(), limit.leavingFree(room().bytes).isExceeded(by: usage) else {
      return
    }
    start(usage)
  }

  /// Returns the usage with another record if it exceeds the bounds, or `nil` if it does not or is unknown.
  func usage(
    beyondBoundsAfter size: RecordSize, replacing before: () -> RecordSize?
  ) throws -> BlobStore.UsageEstimate? {
    guard let limit, let open = try core.root.opened(), let control = core.countersFile(of: open),
      let counted = control.counters
    else { return nil }
    let isKnown = control.countersAreKnown
    let usage = counted + BlobStore.UsageEstimate(size)
    guard limit.refuses(from: nil, to: size, usage, isKnown: isKnown) else { return nil }
    let before = before()
    let rest = usage - BlobStore.UsageEstimate(before)
    return limit.refuses(from: before, to: size, rest, isKnown: isKnown) ? rest : nil
  }

  private func run() {
    var isMade = makeCollection()
    while !isMade || takeUpRequest() {
      if !isMade { SystemClock.sleep(microseconds: Self.pauseBesideOthers) }
      // Most requests are satisfied by the finished collection.
      isMade = isStopped.load(ordering: .relaxed) || isKept() || makeCollection()
    }
  }

  /// Accepts a request that stores have made in the meantime. Without one, the next request starts a new thread.
  private func takeUpRequest() -> Bool {
    state.withLock { state in
      // After a collection that has not helped, the next stores decide when another one is worthwhile.
      state.isRunning = state.isAskedAgain && !state.isClosed && state.cooldown == nil
      state.isAskedAgain = false
      return state.isRunning
    }
  }

  private func isKept() -> Bool {
    // If the counters are unknown or unreadable, the collection determines them or reports the error.
    guard let limit, let usage = try? core.usageEstimate() else { return false }
    return !limit.leavingFree(room().bytes).isExceeded(by: usage)
  }

  /// Returns `false` if another process is making a collection. That collection makes room for all stores, but it may
  /// have checked the limits before the store that needs room.
  private func makeCollection() -> Bool {
    let start = ContinuousClock.now
    var queue = state.withLock { state in
      defer { state.queue = EvictionQueue() }
      return state.queue
    }
    // A queue that an earlier pass has filled indicates a steady stream of stores.
    let isSteady = !queue.isEmpty
    var options = BlobStore.CollectionOptions()
    options.isStopped = { [self] in isStopped.load(ordering: .relaxed) && !isFinishedAfterClose() }
    options.givesUpWaiting = { [self] in isStopped.load(ordering: .relaxed) }
    let run = LimitRun(core: core, options: options, isSpared: isSpared)
    var outcome = LimitRun.Outcome.kept
    var isElsewhere = false
    do {
      outcome = try run.keepLimits(&queue, room: room)
      // Stores continue during the walk, and may end before it does.
      if outcome == .kept, isSteady, lookAhead(run, &queue) {
        outcome = try run.keepLimits(&queue, room: room)
      }
    } catch let error as BlobStoreError where error.code == .collectionRunning {
      isElsewhere = true
    } catch {
      outcome = .short
      core.configuration.logger.warning("\(BlobStoreError(error, operation: "collect", key: nil))")
    }
    checkVolume()
    // Unreadable counters have been reported above.
    let usage = (try? core.usageEstimate()) ?? BlobStore.UsageEstimate()
    state.withLock { state in
      state.fellShort = outcome == .short
      state.cooldown =
        outcome == .kept
        ? nil : Cooldown(end: .now + max((.now - start) * Self.cooldownFactor, Self.shortestCooldown), usage)
      state.queue = queue
      state.collections += 1
    }
    return !isElsewhere
  }

  /// Returns whether a collection continues after the store was released. Otherwise, processes that each store once and
  /// end would never finish one. In a large directory, the walk would delay the end of the process for too long.
  private func isFinishedAfterClose() -> Bool {
    // Counters that cannot be read are unknown.
    (try? core.usageEstimate()).map { $0.records <= Self.mostRecordsAfterClose } ?? false
  }

  private func lookAhead(_ run: LimitRun, _ queue: inout EvictionQueue) -> Bool {
    guard !isStopped.load(ordering: .relaxed) else { return false }
    do {
      return try run.lookAhead(&queue)
    } catch {
      // The store that needs room tries again, and reports the error.
      core.configuration.logger.debug("\(BlobStoreError(error, operation: "collect", key: nil))")
      return true
    }
  }
}

extension LimitEnforcer.Cooldown {
  fileprivate init(end: ContinuousClock.Instant, _ usage: BlobStore.UsageEstimate) {
    self.end = end
    evictableBytes = usage.bytes &- usage.lockedBytes
  }
}

// MARK: - The volume

extension LimitEnforcer {
  /// Checks the volume's spare space and the packs' space on disk, each after a number of stored bytes. Excess bytes
  /// are evicted like bytes above the limit.
  func didStore(_ byteCount: Int64) {
    if let packCheck, packCheck.isDue(after: byteCount) { checkPacks(packCheck) }
    guard let volumeCheck, volumeCheck.isDue(after: byteCount), let usage = checkVolume(),
      limit?.isExceeded(by: usage) == true
    else { return }
    start(usage)
  }

  private func checkPacks(_ check: PeriodicCheck) {
    check.restart(after: core.configuration.packCheckInterval ?? .max)
    do {
      guard try PackedMedium(of: core)?.isTooMuch == true, let usage = try core.usageEstimate() else { return }
      start(usage)
    } catch {
      // A failed check does not concern the store. The next one may succeed.
      core.configuration.logger.debug("\(BlobStoreError(error, operation: "store", key: nil))")
    }
  }

  /// Returns the directory's usage, or `nil` if it is unknown.
  @discardableResult
  private func checkVolume() -> BlobStore.UsageEstimate? {
    guard let volumeCheck else { return nil }
    do {
      guard let open = try core.root.opened() else { return nil }
      let budget = try SpaceBudget(of: open.directory, floor: core.configuration.limits.freeSpaceFloor)
      let usage = try core.usageEstimate()
      if let usage { sparedBytes.store(budget.spares(forOneHolding: usage.bytes), ordering: .relaxed) }
      volumeCheck.restart(after: budget.checkInterval)
      return usage
    } catch {
      // The floor is not guaranteed, so a failed check of the volume does not concern the store.
      core.configuration.logger.debug("\(BlobStoreError(error, operation: "store", key: nil))")
      volumeCheck.restart(after: 1 << 20)
      return nil
    }
  }

  /// Makes room on a volume that a store has found full. Returns whether the store can be retried.
  func makeRoomOnFullVolume(for byteCount: Int64, of digest: UInt64, after rescues: Int) -> Bool {
    // The process's threads do not exist in a forked child, and one may have held the lock during the fork.
    guard CurrentProcess.forkCount == forkCount else { return false }
    return rescue.makeRoom(for: byteCount, after: rescues) { [self] in
      // The key's existing record stays if the store fails.
      $0 == digest || isSpared($0)
    } isStopped: { [self] in
      isStopped.load(ordering: .relaxed)
    }
  }
}

extension BlobStore.Configuration {
  /// The bytes to store between two checks of the packs, or `nil` if nothing is packed or the size is unlimited.
  fileprivate var packCheckInterval: Int64? {
    guard let limit = limits.size, mayPack else { return nil }
    return max(limit / 16, Int64(packChunkByteCount ?? PackLayout.chunkByteCount))
  }
}
