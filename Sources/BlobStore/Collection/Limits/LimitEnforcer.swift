internal import Locks
internal import Logging
internal import Posix
internal import Synchronization
internal import SystemPackage

/// Keeps a directory within its limits while it is stored to.
///
/// It starts a collection on a thread of its own when a store has exceeded them, one at a time. Stores that would
/// exceed them by far wait for it.
///
/// It works on the store's core, so the store can go during a collection: `close` then ends that after the current
/// file.
final class LimitEnforcer: Sendable {
  /// Why no collection is started for a while.
  fileprivate struct Cooldown {
    var end: ContinuousClock.Instant
    /// Bytes that could have been evicted, had that helped.
    var evictableBytes: Int64
  }

  private struct State {
    var thread: OwnedThread?
    var isRunning = false
    /// Whether a store has exceeded the limits since the collection under way began.
    ///
    /// That may have looked before.
    var isAskedAgain = false
    var isClosed = false
    /// Collections that ended.
    var collections = 0
    /// Whether the last one could not keep the limits: what is left is locked, or cannot be removed.
    var fellShort = false
    var cooldown: Cooldown?
    var queue = EvictionQueue()
    /// Bytes of the records that wait for room, by the numbers of their waits.
    var waiting: [Int: Int64] = [:]
    var nextWait = 0
  }

  /// How long nothing is tried again after a collection that did not help, times what it took.
  private static let cooldownFactor = 10.0
  private static let shortestCooldown: Duration = .seconds(1)
  /// Microseconds between two looks at whether another process's collection has ended.
  private static let pauseBesideOthers = 20_000

  private let configuredLimit: StoreLimit?
  /// When to check what the volume can spare; nil if nothing depends on that.
  private let volumeCheck: PeriodicCheck?
  /// The size to which the volume lets the directory grow, as of the last check.
  private let sparedBytes = Atomic(Int64.max)
  /// When to check what the packs take on the medium; nil if no pack can grow beyond the limit. Records that are replaced
  /// leave the directory within its limit, and the packs grow all the same.
  private let packCheck: PeriodicCheck?
  let rescue: VolumeRescue
  let reservations = RoomReservations()
  private let core: StoreCore
  private let forkCount = CurrentProcess.forkCount
  private let state = Lock(State())
  private let isStopped = Atomic(false)
  /// The digest of the record that was stored last.
  private let lastStored = Atomic<UInt64>(0)

  init(_ core: StoreCore) {
    self.core = core
    configuredLimit = StoreLimit(of: core)
    let limits = core.configuration.limits
    volumeCheck = limits.size != nil && limits.freeSpaceFloor != 0 ? PeriodicCheck(after: 1) : nil
    packCheck = core.configuration.packCheckInterval.map { PeriodicCheck(after: $0) }
    rescue = VolumeRescue(core)
  }

  /// nil without a limit.
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

  /// Ends the collection under way with the file in hand, and starts none any more.
  func close() {
    // The threads of a process are not in its forked child; one of them may have held the lock when it was forked.
    guard CurrentProcess.forkCount == forkCount else { return }
    isStopped.store(true, ordering: .relaxed)
    let thread = state.withLock { state in
      state.isClosed = true
      return state.thread.take()
    }
    thread?.join()
  }

  /// A Boolean value that indicates whether a collection is under way.
  var isRunning: Bool { state.withLock { $0.isRunning } }
}

// MARK: - The limits

extension LimitEnforcer {
  /// Starts a collection, or another after the one under way, should that be needed then.
  ///
  /// It starts none if the last one did not help and nothing has changed since.
  func start(_ usage: BlobStore.UsageEstimate) {
    state.withLock { state in
      guard !state.isRunning else {
        state.isAskedAgain = true
        return
      }
      guard !state.isClosed, !isCoolingDown(state, usage) else { return }
      // It has ended.
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
    // A hundredth more can be evicted now: that is worth another try.
    let gain = usage.bytes &- usage.lockedBytes &- cooldown.evictableBytes
    return gain <= (configuredLimit?.bytes ?? .max) / 100
  }

  /// A store that is waiting for room.
  struct Wait {
    fileprivate var backoff: Backoff
    /// Those that had ended when it began.
    fileprivate let collections: Int
    /// nil while no room is asked for.
    fileprivate var number: Int?
  }

  private func askForRoom(_ wait: Wait?, for byteCount: Int64) -> Wait {
    state.withLock { state in
      var asking =
        wait ?? Wait(backoff: Backoff(timeout: core.configuration.access.lockTimeout), collections: state.collections)
      if asking.number == nil {
        asking.number = state.nextWait
        state.waiting[state.nextWait] = byteCount
        state.nextWait += 1
      }
      return asking
    }
  }

  /// The store has given up, or has found room and is about to be counted.
  ///
  /// Else a look at both would count its record twice.
  func stopAsking(_ wait: inout Wait?) {
    guard let number = wait?.number else { return }
    state.withLock { $0.waiting[number] = nil }
    wait?.number = nil
  }

  /// Waits a little for the collection that makes room.
  ///
  /// - Parameters:
  ///   - wait: nil at first; a store's own from one time to the next.
  ///   - byteCount: the size of the file to store.
  /// - Throws: `limitReached` if it made none, or not in time.
  func waitForRoom(_ wait: inout Wait?, _ usage: BlobStore.UsageEstimate, for byteCount: Int64) throws(BlobStoreError) {
    var asking = askForRoom(wait, for: byteCount)
    defer { wait = asking }
    // Before another is started, which would be under way then, each time anew.
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

  /// Starts a collection if the room that writers have reserved is not there.
  func makeReservedRoom() {
    // Counters that cannot be read are reported by the commit.
    guard let limit, let usage = try? core.usageEstimate(), limit.leavingFree(room().bytes).isExceeded(by: usage) else {
      return
    }
    start(usage)
  }

  /// The usage with one record more, if that is more than there may ever be; nil also where it is not known.
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

  /// The thread's work.
  private func run() {
    var isMade = makeCollection()
    while !isMade || takeUpRequest() {
      if !isMade { SystemClock.sleep(microseconds: Self.pauseBesideOthers) }
      // Most requests need no more than has been made.
      isMade = isStopped.load(ordering: .relaxed) || isKept() || makeCollection()
    }
  }

  /// Takes up a request that stores have made meanwhile.
  ///
  /// - Returns: false without one; then the next request starts a thread.
  private func takeUpRequest() -> Bool {
    state.withLock { state in
      // After a collection that has not helped, stores know better when another would.
      state.isRunning = state.isAskedAgain && !state.isClosed && state.cooldown == nil
      state.isAskedAgain = false
      return state.isRunning
    }
  }

  private func isKept() -> Bool {
    // If the counters are not known or cannot be read, the collection finds out, and reports it.
    guard let limit, let usage = try? core.usageEstimate() else { return false }
    return !limit.leavingFree(room().bytes).isExceeded(by: usage)
  }

  /// - Returns: false if another process is making one. That makes room for all, but may have looked before the store
  ///   that needs it.
  private func makeCollection() -> Bool {
    let start = ContinuousClock.now
    var queue = state.withLock { state in
      defer { state.queue = EvictionQueue() }
      return state.queue
    }
    // Records that are known from an earlier pass tell of a steady stream of stores.
    let isSteady = !queue.isEmpty
    var options = BlobStore.CollectionOptions()
    options.isStopped = { [self] in isStopped.load(ordering: .relaxed) }
    let run = LimitRun(core: core, options: options, isSpared: isSpared)
    var outcome = LimitRun.Outcome.kept
    var isElsewhere = false
    do {
      outcome = try run.keepLimits(&queue, room: room)
      // Stores go on during the walk, and may come to an end before it does.
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
    // Counters that cannot be read have been reported above.
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

  /// - Returns: whether a walk was made for it.
  private func lookAhead(_ run: LimitRun, _ queue: inout EvictionQueue) -> Bool {
    guard !isStopped.load(ordering: .relaxed) else { return false }
    do {
      return try run.lookAhead(&queue)
    } catch {
      // The store that needs room looks again, and reports what keeps it from that.
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
  /// Checks what the volume can spare and what the packs take, each once in a number of stored bytes.
  ///
  /// Bytes above that are evicted like those above the limit.
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

  /// - Returns: what lies in the directory; nil if that is not known.
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
      // The floor is a wish: a failed check of the volume does not concern the core.
      core.configuration.logger.debug("\(BlobStoreError(error, operation: "store", key: nil))")
      volumeCheck.restart(after: 1 << 20)
      return nil
    }
  }

  /// Makes room on a volume that a store has found full.
  ///
  /// - Returns: whether it may try again.
  func makeRoomOnFullVolume(for byteCount: Int64, of digest: UInt64, after rescues: Int) -> Bool {
    // The threads of a process are not in its forked child; one of them may have held the lock when it was forked.
    guard CurrentProcess.forkCount == forkCount else { return false }
    return rescue.makeRoom(for: byteCount, after: rescues) { [self] in
      // The record that the key has stays if the store fails.
      $0 == digest || isSpared($0)
    } isStopped: { [self] in
      isStopped.load(ordering: .relaxed)
    }
  }
}

extension BlobStore.Configuration {
  /// The bytes to store between two checks of what the packs take; nil if nothing is packed, or all may grow.
  fileprivate var packCheckInterval: Int64? {
    guard let limit = limits.size, mayPack else { return nil }
    return max(limit / 16, Int64(packChunkByteCount ?? PackLayout.chunkByteCount))
  }
}
