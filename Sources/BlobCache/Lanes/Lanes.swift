internal import Synchronization

/// The lanes of a cache. Each kind of work has its own, so that a load never waits behind removals, a scan or a
/// collection.
struct Lanes: Sendable {
  /// Loads, and looks at headers.
  let reads: Lane
  /// Stores, touches, locks.
  let writes: Lane
  /// Files, pipes and exports, which may take long: no load or store waits behind them.
  let copies: Lane
  let removals: Lane
  /// Enumerations, a batch at a time.
  let scans: Lane
  /// Collections, and touches that were put off.
  let upkeep: Lane
  private let predecessor: ShutdownLatch?

  /// - Parameter predecessor: whose end is waited for before anything is done.
  init(width: Int, after predecessor: ShutdownLatch?) {
    self.predecessor = predecessor
    func lane(_ width: Int) -> Lane { Lane(width: width) { predecessor?.wait() } }
    reads = lane(width)
    writes = lane(width)
    copies = lane(width)
    // A quarter, because removals in hand keep the disk, and the cores, from loads.
    removals = lane(max(width / 4, 1))
    scans = lane(max(width / 2, 1))
    upkeep = lane(2)
  }

  /// Whether there is no predecessor to wait for any more.
  var areReady: Bool { predecessor?.isFinished ?? true }

  var all: [Lane] { [reads, writes, copies, removals, scans, upkeep] }

  var threadCount: Int { all.reduce(0) { $0 + $1.threadCount } }

  func close() { for lane in all { lane.close() } }

  func closed() async { for lane in all { await lane.closed() } }
}

/// Whether the task that waits for a long call on a lane was cancelled.
///
/// The call asks it, because it runs in no task.
final class CancellationFlag: Sendable {
  private let flag = Atomic(false)

  var isSet: Bool { flag.load(ordering: .relaxed) }

  /// Runs a body with a flag that the task's cancellation sets.
  static func during<Result>(_ body: (CancellationFlag) async throws -> Result) async throws -> Result {
    let flag = CancellationFlag()
    return try await withTaskCancellationHandler {
      try await body(flag)
    } onCancel: {
      flag.flag.store(true, ordering: .relaxed)
    }
  }

  /// Asks this flag, then the other reason to stop the call.
  func or(_ isStopped: (@Sendable () -> Bool)?) -> @Sendable () -> Bool {
    { self.isSet || isStopped?() == true }
  }
}
