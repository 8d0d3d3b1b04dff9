internal import BlobRecord
internal import BlobStore
internal import Logging
internal import Locks
internal import Synchronization

/// Writes to disk, in batches, the uses of records that were loaded from memory.
///
/// Each record is written at most once per interval, not on the caller's thread. Before a collection, which depends
/// on the update times, all uses are written.
final class TouchBatch: Sendable {
  private struct State {
    /// Uses that are not on disk yet. Their update times on disk are less than an interval behind.
    var noted: [RecordUse] = []
    var due: [RecordUse] = []
    var isScheduled = false
  }

  /// The number of recorded uses above which they are written early: some megabytes.
  private static let mostNoted = 1 << 16

  /// The number of due uses above which loads touch their records themselves: a tenth of a second's work.
  private static let mostDue = 1 << 12

  let intervalSeconds: Int64
  private let store: BlobStore
  private let lane: Lane
  private let state = Lock(State())
  /// Held while a batch is written, so that after a write, all earlier uses are on disk, whichever thread wrote them.
  private let writing = Lock((), rank: .touches)
  /// The number of calls of `didSettle`, each of which announces that newer update times are known.
  private let settlements = Atomic<UInt64>(0)

  init(of store: BlobStore, interval: Duration, lane: Lane) {
    let longest = max(store.effectiveDefaultExpiration / 4, 1)
    intervalSeconds = min(max(Int64(clamping: Int128(interval / .seconds(1))), 1), longest)
    self.store = store
    self.lane = lane
  }

  func moment(at now: UnixTime) -> UseMoment {
    UseMoment(now, settlements: settlements.load(ordering: .acquiring))
  }

  /// Records that update times have become known by `RecordUse.settle`, so that uses read them again.
  func didSettle() { settlements.wrappingAdd(1, ordering: .releasing) }

  func note(_ use: RecordUse, at now: Int64) {
    if use.isOverdue(at: now, interval: intervalSeconds) {
      guard use.becomesDue() else { return }
      schedule { $0.due.append(use) }
    } else if use.becomesNoted() {
      let isFull = state.withLock { state in
        state.noted.append(use)
        return state.noted.count >= Self.mostNoted
      }
      if isFull {
        schedule { state in
          state.due += state.noted
          state.noted = []
        }
      }
    }
  }

  /// A Boolean value that indicates whether the disk keeps up with `write(_:at:)`.
  var hasRoom: Bool { state.withLock { $0.due.count < Self.mostDue } }

  func write(_ use: RecordUse, at time: UnixTime) {
    guard use.use(at: time.seconds), use.becomesDue() else { return }
    schedule { $0.due.append(use) }
  }

  private func schedule(_ change: (inout State) -> Void) {
    let starts = state.withLock { state in
      change(&state)
      defer { state.isScheduled = true }
      return !state.isScheduled
    }
    guard starts else { return }
    // If the lane is closed, `close` writes the uses; without a thread, the next due use schedules the write again.
    lane.submit(.low) {
      self.write(all: false)
    } orFail: { _ in
      self.state.withLock { $0.isScheduled = false }
    }
  }

  /// Writes the due uses, or all recorded ones. Blocks.
  func write(all: Bool) {
    writing.withLock { _ in writeBatch(all: all) }
  }

  private func writeBatch(all: Bool) {
    let uses = state.withLock { state in
      state.isScheduled = false
      defer {
        state.due = []
        if all { state.noted = [] }
      }
      return all ? state.due + state.noted : state.due
    }
    for use in uses {
      let latest = use.latest
      let update = refresh(use, to: latest)
      if update == nil { use.wasNotTold(at: store.configuration.now().seconds) }
      use.settle(update)
      // Until `settle`, later uses were not recorded, because the use's flags were set.
      if use.latest > latest { note(use, at: use.latest) }
    }
    if !uses.isEmpty { didSettle() }
  }

  /// - Returns: The update time on disk if it is known.
  private func refresh(_ use: RecordUse, to latest: Int64) -> UnixTime? {
    // Otherwise the use became due after it was recorded: it is in both lists, and was written the first time.
    guard latest > use.update else { return nil }
    do {
      return try store.refresh(use.key, to: UnixTime(seconds: latest))
    } catch {
      // The record then expires a little earlier, as after a load whose touch has failed.
      LockOrder.outside { store.configuration.logger.debug("\(error)") }
      return nil
    }
  }
}
