internal import BlobRecord
internal import BlobStore
internal import Logging
internal import Locks
internal import Synchronization

/// Writes uses that memory has answered to disk, many at a time.
///
/// It writes each record's at most once per interval, away from the caller. Before a collection, which goes by the
/// update times, it writes all of them.
final class TouchBatch: Sendable {
  private struct State {
    /// Used since the disk was told, less than an interval ago.
    var noted: [RecordUse] = []
    /// To be written now.
    var due: [RecordUse] = []
    var isScheduled = false
  }

  /// Uses that are noted at the most, before they are written early: some megabytes.
  private static let mostNoted = 1 << 16

  /// Uses that wait to be written, before loads write them themselves: a tenth of a second's work.
  private static let mostDue = 1 << 12

  let intervalSeconds: Int64
  private let store: BlobStore
  private let lane: Lane
  private let state = Lock(State())
  /// Held while a batch is written: after a write, all uses noted before are on disk.
  ///
  /// This holds also for those that another thread writes.
  private let writing = Lock((), rank: .touches)
  /// How often update times on disk have become known.
  private let settlements = Atomic<UInt64>(0)

  init(of store: BlobStore, interval: Duration, lane: Lane) {
    let longest = max(store.effectiveDefaultExpiration / 4, 1)
    intervalSeconds = min(max(Int64(clamping: Int128(interval / .seconds(1))), 1), longest)
    self.store = store
    self.lane = lane
  }

  /// The moment of a use.
  func moment(at now: UnixTime) -> UseMoment {
    UseMoment(now, settlements: settlements.load(ordering: .acquiring))
  }

  /// Update times on disk have become known, by `RecordUse.settle`: uses look at them again.
  func didSettle() { settlements.wrappingAdd(1, ordering: .releasing) }

  /// Notes that a record was used, later than the disk knows.
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

  /// Whether the disk keeps up with `write(_:at:)`.
  var hasRoom: Bool { state.withLock { $0.due.count < Self.mostDue } }

  /// Has a use written to disk, soon.
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
    // Where the lane is closed, `close` writes what is noted; without a thread, the next to come due has it written.
    lane.submit(.low) {
      self.write(all: false)
    } orFail: { _ in
      self.state.withLock { $0.isScheduled = false }
    }
  }

  /// Writes what is due, or all that was noted. Blocks.
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
      // Until now, later uses counted as noted.
      if use.latest > latest { note(use, at: use.latest) }
    }
    if !uses.isEmpty { didSettle() }
  }

  /// - Returns: the update time on disk, as far as it is known.
  private func refresh(_ use: RecordUse, to latest: Int64) -> UnixTime? {
    // Else it was noted, and due since: it is in both lists, and was written the first time.
    guard latest > use.update else { return nil }
    do {
      return try store.refresh(use.key, to: UnixTime(seconds: latest))
    } catch {
      // Its record lives a little shorter, as with a load whose touch did not succeed.
      LockOrder.outside { store.configuration.logger.debug("\(error)") }
      return nil
    }
  }
}
