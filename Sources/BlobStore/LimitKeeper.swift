internal import Locks
internal import Logging
internal import PosixFiles
internal import Synchronization
internal import SystemPackage

/// Keeps a directory within its limits while it is stored to: starts a collection on a thread of its own when a store
/// has exceeded them, one at a time, and lets stores that would exceed them by far wait for it.
///
/// It works on a store of its own that shares everything with the one it belongs to, so that the latter can go while a
/// collection is under way: `close` then ends it with the file in hand.
final class LimitKeeper: Sendable {
  /// Why no collection is started for a while.
  fileprivate struct Rest {
    var end: ContinuousClock.Instant
    /// Bytes that could have been evicted, had that helped.
    var evictableBytes: Int64
  }

  private struct State {
    var thread: OwnedThread?
    var isRunning = false
    var isClosed = false
    /// Collections that ended.
    var collections = 0
    /// Whether the last one could not keep the limits: what is left is locked, or cannot be removed.
    var fellShort = false
    var rest: Rest?
    var nextVictims = NextVictims()
    /// Bytes of the records that wait for room, by the numbers of their waits.
    var waiting: [Int: Int64] = [:]
    var nextWait = 0
    var lastRescue: ContinuousClock.Instant?
  }

  /// How long nothing is tried again after a collection that did not help, times what it took.
  private static let restFactor = 10.0
  private static let shortestRest: Duration = .seconds(1)
  private static let restBesideOthers: Duration = .milliseconds(20)
  /// How often a full volume leads to a collection.
  private static let rescueInterval: Duration = .seconds(60)

  let limit: StoreLimit?
  private let store: BlobStore
  private let forkCount = CurrentProcess.forkCount
  private let state = Lock(State())
  private let isStopped = Atomic(false)
  /// The digest of the record that was stored last.
  private let lastStored = Atomic<UInt64>(0)

  /// - Parameter store: without a keeper of its own.
  init(_ store: BlobStore) {
    self.store = store
    limit = StoreLimit(store.configuration, quarantineBytes: store.quarantineByteLimit)
  }

  /// A record is about to be stored, and is not to be the first victim of what it leads to.
  func willStore(_ digest: UInt64) {
    if limit != nil { lastStored.store(digest, ordering: .relaxed) }
  }

  func isSpared(_ digest: UInt64) -> Bool { lastStored.load(ordering: .relaxed) == digest }

  /// Ends the collection under way with the file in hand, and starts none any more.
  func close() {
    isStopped.store(true, ordering: .relaxed)
    let thread = state.withLock { state in
      state.isClosed = true
      return state.thread.take()
    }
    // The threads of a process are not in its forked child.
    if CurrentProcess.forkCount == forkCount { thread?.join() }
  }

  /// Waits for the collection under way, if there is one.
  func waitUntilIdle() {
    while state.withLock({ $0.isRunning }) { SystemClock.sleep(microseconds: 500) }
  }
}

// MARK: - The limits

extension LimitKeeper {
  /// Starts a collection unless one is under way, or the last one did not help and nothing has changed since.
  func start(_ usage: UsageEstimate) {
    state.withLock { state in
      guard !state.isRunning, !state.isClosed, !isResting(state, usage) else { return }
      // It has ended.
      state.thread?.join()
      do {
        state.thread = try OwnedThread { [self] in keep() }
        state.isRunning = true
      } catch {
        store.configuration.logger.warning("no thread for a collection of \(store.root.path): \(error)")
      }
    }
  }

  private func isResting(_ state: State, _ usage: UsageEstimate) -> Bool {
    guard let rest = state.rest, ContinuousClock.now < rest.end else { return false }
    // A hundredth more can be evicted now: that is worth another try.
    let gain = usage.bytes &- usage.lockedBytes &- rest.evictableBytes
    return gain <= (limit?.bytes ?? .max) / 100
  }

  /// A store that is waiting for room.
  struct Wait {
    fileprivate var backoff: Backoff
    fileprivate let collections: Int
    fileprivate let number: Int
  }

  private func beginWait(for byteCount: Int64) -> Wait {
    state.withLock { state in
      defer { state.nextWait += 1 }
      state.waiting[state.nextWait] = byteCount
      return Wait(
        backoff: Backoff(timeout: store.configuration.lockTimeout), collections: state.collections,
        number: state.nextWait)
    }
  }

  /// The store has found room, or has given up.
  func end(_ wait: Wait?) {
    guard let wait else { return }
    state.withLock { $0.waiting[wait.number] = nil }
  }

  /// Waits a little for the collection that makes room.
  ///
  /// - Parameters:
  ///   - waited: nil at first; a store's own from one time to the next.
  ///   - byteCount: of the file that is to be stored.
  /// - Throws: `limitReached` if it made none, or not in time.
  func waitForRoom(_ waited: inout Wait?, _ usage: UsageEstimate, for byteCount: Int64) throws(BlobStoreError) {
    var wait = waited ?? beginWait(for: byteCount)
    defer { waited = wait }
    start(usage)
    let isHopeless = state.withLock { state in
      state.fellShort && !state.isRunning && (state.collections > wait.collections || isResting(state, usage))
    }
    guard !isHopeless else {
      throw BlobStoreError(
        .limitReached, "what the directory holds is locked or cannot be removed, and is as much as may be",
        path: store.root.path)
    }
    guard wait.backoff.wait() else {
      throw BlobStoreError(
        .limitReached, "no collection has made room for \(store.configuration.lockTimeout)", path: store.root.path)
    }
  }

  /// Bytes of the largest record that waits for room just now.
  private func room() -> Int64 { state.withLock { $0.waiting.values.max() ?? 0 } }

  /// The thread's work.
  private func keep() {
    let start = ContinuousClock.now
    var victims = state.withLock { state in
      defer { state.nextVictims = NextVictims() }
      return state.nextVictims
    }
    // Who has evicted already will do so again.
    let isSteady = !victims.isEmpty
    var options = CollectionOptions()
    options.isStopped = { [self] in isStopped.load(ordering: .relaxed) }
    var hasHelped = true
    var isElsewhere = false
    do {
      hasHelped = try store.keepLimits(options, &victims, room: room, isSpared: isSpared)
      // Stores go on during the walk, and may come to an end before it does.
      if hasHelped, isSteady, lookAhead(options, &victims) {
        hasHelped = try store.keepLimits(options, &victims, room: room, isSpared: isSpared)
      }
    } catch let error as BlobStoreError where error.code == .collectionRunning {
      // Somebody else makes room, for all: that takes longer than to ask again at once.
      isElsewhere = true
    } catch {
      hasHelped = false
      store.configuration.logger.warning("\(BlobStoreError(error, operation: "collect", key: nil))")
    }
    let usage = (try? store.usageEstimate()) ?? UsageEstimate()  // what cannot be read has been reported above
    state.withLock { state in
      state.fellShort = !hasHelped
      state.rest =
        isElsewhere
        ? Rest(end: .now + Self.restBesideOthers, usage)
        : hasHelped ? nil : Rest(end: .now + max((.now - start) * Self.restFactor, Self.shortestRest), usage)
      state.nextVictims = victims
      state.collections += 1
      state.isRunning = false
    }
  }

  /// - Returns: whether a walk was made for it.
  private func lookAhead(_ options: CollectionOptions, _ victims: inout NextVictims) -> Bool {
    guard !isStopped.load(ordering: .relaxed) else { return false }
    do {
      return try store.lookAhead(options, &victims, isSpared: isSpared)
    } catch {
      // The store that needs room looks again, and reports what keeps it from that.
      store.configuration.logger.debug("\(BlobStoreError(error, operation: "collect", key: nil))")
      return true
    }
  }
}

extension LimitKeeper.Rest {
  fileprivate init(end: ContinuousClock.Instant, _ usage: UsageEstimate) {
    self.end = end
    evictableBytes = usage.bytes &- usage.lockedBytes
  }
}

// MARK: - A full volume

extension LimitKeeper {
  /// Makes a collection because a store has found the volume full; at most once a minute.
  ///
  /// - Returns: whether it was made, so that the store may try again.
  func rescue() -> Bool {
    let now = ContinuousClock.now
    let isDue = state.withLock { state in
      if let last = state.lastRescue, now < last + Self.rescueInterval { return false }
      state.lastRescue = now
      return !state.isClosed
    }
    guard isDue else { return false }
    var options = CollectionOptions()
    options.waitsForOther = store.configuration.lockTimeout
    // What is recycled makes no room.
    options.emptiesBin = true
    do {
      let report = try store.collect(options)
      return report.bytesFreed > 0 || report.recycledBytesFreed > 0
    } catch {
      // The store has failed for want of room, and says so.
      store.configuration.logger.warning("\(error)")
      return false
    }
  }
}
