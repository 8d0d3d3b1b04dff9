internal import BlobRecord
internal import BlobStore
internal import Logging
internal import Locks

/// A record that was used, and is to be touched on disk.
struct RecordTouch: Sendable {
  let key: BlobKey
  let entry: MemoryEntry
}

/// Writes to disk, in batches, the uses of records that were loaded from memory.
///
/// Each record is written at most once per interval, not on the caller's thread. Before a collection, which depends
/// on the update times, all uses are written.
final class TouchBatch: Sendable {
  private struct State {
    /// Uses that are not on disk yet. Their update times on disk are less than an interval behind.
    var noted: [RecordTouch] = []
    var due: [RecordTouch] = []
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

  init(of store: BlobStore, interval: Duration, lane: Lane) {
    let longest = max(store.effectiveDefaultExpiration / 4, 1)
    intervalSeconds = min(max(Int64(clamping: Int128(interval / .seconds(1))), 1), longest)
    self.store = store
    self.lane = lane
  }

  func note(_ touch: RecordTouch, at now: Int64) {
    if touch.entry.isOverdue(at: now, interval: intervalSeconds) { return addDue(touch) }
    guard !touch.entry.isNoted else { return }
    let isFull = state.withLock { state in
      guard touch.entry.becomesNoted() else { return false }
      state.noted.append(touch)
      return state.noted.count >= Self.mostNoted
    }
    guard isFull else { return }
    schedule { state in
      state.due += state.noted
      state.noted = []
    }
  }

  private func addDue(_ touch: RecordTouch) {
    guard !touch.entry.isDue else { return }
    schedule { if touch.entry.becomesDue() { $0.due.append(touch) } }
  }

  /// A Boolean value that indicates whether the disk keeps up with `write(_:at:)`.
  var hasRoom: Bool { state.withLock { $0.due.count < Self.mostDue } }

  func write(_ touch: RecordTouch, at time: UnixTime) {
    if touch.entry.use(at: time.seconds) { addDue(touch) }
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
    let touches = state.withLock { state in
      state.isScheduled = false
      defer {
        state.due = []
        if all { state.noted = [] }
      }
      return all ? state.due + state.noted : state.due
    }
    for touch in touches {
      let entry = touch.entry
      let latest = entry.latest
      let update = refresh(touch, to: latest)
      if update == nil { entry.wasNotTold(at: store.configuration.now().seconds) }
      entry.settle(update)
      // Until `settle`, later uses were not listed, because the entry's flags were set.
      if entry.latest > latest { note(touch, at: entry.latest) }
    }
  }

  /// - Returns: The update time on disk if it is known.
  private func refresh(_ touch: RecordTouch, to latest: Int64) -> UnixTime? {
    // Otherwise the use became due after it was recorded: it is in both lists, and was written the first time.
    guard latest > touch.entry.update else { return nil }
    do {
      return try store.refresh(touch.key, to: UnixTime(seconds: latest))
    } catch {
      // The record then expires a little earlier, as after a load whose touch has failed.
      LockOrder.outside { store.configuration.logger.debug("\(error)") }
      return nil
    }
  }
}
