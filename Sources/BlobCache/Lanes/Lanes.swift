internal import Synchronization

/// The lanes of a cache, one for each kind of work, so that loads never wait behind removals or collections.
struct Lanes: Sendable {
  /// Loads and header lookups.
  let reads: Lane
  /// Stores, touches and locks.
  let writes: Lane
  /// Copies of files and pipes, and exports, which may take a long time.
  let copies: Lane
  let removals: Lane
  /// Enumerations, one batch at a time.
  let scans: Lane
  /// Collections and deferred touches.
  let upkeep: Lane
  private let predecessor: ShutdownLatch?

  /// - Parameters:
  ///   - predecessor: The latch that each thread waits for before its first job.
  ///   - whenIdle: Runs on a thread of each lane that has had no work for some time.
  init(width: Int, after predecessor: ShutdownLatch?, whenIdle: @escaping @Sendable () -> Void) {
    self.predecessor = predecessor
    func lane(_ width: Int) -> Lane {
      Lane(width: width, prepare: { predecessor?.wait() }, whenIdle: whenIdle)
    }
    reads = lane(width)
    writes = lane(width)
    copies = lane(width)
    // Removals get a quarter, because they compete with loads for the disk and the processor cores.
    removals = lane(max(width / 4, 1))
    scans = lane(max(width / 2, 1))
    upkeep = lane(2)
  }

  var areReady: Bool { predecessor?.isFinished ?? true }

  var all: [Lane] { [reads, writes, copies, removals, scans, upkeep] }

  var threadCount: Int { all.reduce(0) { $0 + $1.threadCount } }

  func close() { for lane in all { lane.close() } }

  func closed() async { for lane in all { await lane.closed() } }
}

/// A flag that tells a long call on a lane that the waiting task was cancelled. The call itself runs in no task.
final class CancellationFlag: Sendable {
  private let flag = Atomic(false)

  var isSet: Bool { flag.load(ordering: .relaxed) }

  static func during<Result>(_ body: (CancellationFlag) async throws -> Result) async throws -> Result {
    let flag = CancellationFlag()
    return try await withTaskCancellationHandler {
      try await body(flag)
    } onCancel: {
      flag.flag.store(true, ordering: .relaxed)
    }
  }

  func or(_ isStopped: (@Sendable () -> Bool)?) -> @Sendable () -> Bool {
    { self.isSet || isStopped?() == true }
  }
}
