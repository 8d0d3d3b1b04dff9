public import BlobRecord
internal import Locks
public import Logging
internal import Posix
public import SystemPackage

/// A schedule that collects a store repeatedly on its own thread.
///
/// It needs neither a run loop nor a thread of the concurrency runtime. Several processes may schedule collections of
/// one directory, because a pass is skipped if the last one is younger than half the interval. Releasing the last
/// reference stops it.
public final class CollectionSchedule: Sendable {
  /// The outcome of a pass that was due.
  public enum Outcome: Sendable {
    case finished(BlobStore.CollectionReport)
    /// The pass was skipped because another one, in any process, ended at this time.
    case skippedAsRecent(lastPass: UnixTime)
    /// Another collection of the directory is running, whose process the error names if it is known.
    case skippedAsRunning(BlobStoreError)
    /// The pass failed, which does not affect the next one.
    case failed(BlobStoreError)
  }

  public let directory: FilePath
  let runner: CollectionRunner

  /// Creates a schedule, which does nothing until it is started.
  ///
  /// - Parameters:
  ///   - store: The store whose directory is collected.
  ///   - timing: The times of the passes.
  ///   - options: The options of each pass.
  ///   - slots: The slots that limit concurrent passes of several schedules, or `nil` for no limit.
  ///   - report: A closure that receives each outcome on the schedule's thread, or `nil` to log failures.
  public convenience init(
    of store: BlobStore, timing: BlobStore.CollectionTiming = .init(),
    options: BlobStore.CollectionOptions = .init(), slots: CollectionSlots? = nil,
    report: (@Sendable (Outcome) -> Void)? = nil
  ) {
    self.init(
      of: store.directory, timing: timing, options: options, slots: slots, logger: store.configuration.logger,
      opening: { store }, report: report)
  }

  /// Creates a schedule that opens the directory's store for each pass, in constant time.
  ///
  /// Thus, changes since the last pass take effect, such as another program's configuration. The schedule must be started.
  ///
  /// - Parameters:
  ///   - directory: The directory that is collected.
  ///   - timing: The times of the passes.
  ///   - options: The options of each pass.
  ///   - slots: The slots that limit concurrent passes of several schedules, or `nil` for no limit.
  ///   - logger: The logger for warnings of the schedule itself. A store has its own logger.
  ///   - opening: Opens the store of each pass on the schedule's thread. If it throws, the pass has `failed`.
  ///   - report: A closure that receives each outcome on the schedule's thread, or `nil` to log failures.
  public convenience init(
    of directory: FilePath, timing: BlobStore.CollectionTiming = .init(),
    options: BlobStore.CollectionOptions = .init(), slots: CollectionSlots? = nil,
    logger: Logger = Logger(label: "BlobStore"),
    opening: @escaping @Sendable () throws(BlobStoreError) -> BlobStore,
    report: (@Sendable (Outcome) -> Void)? = nil
  ) {
    timing.warnIfRaised(logger)
    let due = DueStore(opening)
    self.init(
      of: directory, timing: timing, slots: slots, clock: ScheduleClock(),
      work: CollectionRunner.Work(
        time: { due.time() }, lastPass: { due.lastPass() },
        pass: { isStopping throws(BlobStoreError) in
          var options = options
          options.isStopped = isStopping
          return try due.take().collect(options)
        },
        report: report ?? { $0.log(to: logger) }))
  }

  package init(
    of directory: FilePath, timing: BlobStore.CollectionTiming, slots: CollectionSlots?, clock: ScheduleClock,
    work: CollectionRunner.Work
  ) {
    self.directory = directory
    runner = CollectionRunner(timing: timing, slots: slots, clock: clock, work: work)
  }

  deinit {
    runner.stop()
  }

  /// Starts the thread, unless the schedule was started or stopped before.
  ///
  /// - Throws: `fileSystem` if the system cannot create a thread.
  public func start() throws(BlobStoreError) {
    do {
      try runner.start()
    } catch {
      throw BlobStoreError(
        .fileSystem, "pthread_create(3): \(error)", path: directory, operation: "schedule",
        systemCall: "pthread_create(3)", errno: error)
    }
  }

  /// Pauses the schedule until `resume`, but finishes a running pass.
  public func pause() { runner.pause(true) }

  /// Resumes the schedule, and immediately begins a pass that has become due in the meantime.
  public func resume() { runner.pause(false) }

  /// Stops the schedule permanently, and a running pass after its current step, and returns immediately.
  public func stop() { runner.stop() }

  /// Blocks until a schedule that was requested to stop has stopped, and must not be called from its `report`.
  public func waitUntilStopped() { runner.waitUntilStopped() }

  /// Returns when a schedule that was requested to stop has stopped.
  public func stopped() async { await runner.stopped() }
}

/// The store of the due pass, which only the schedule's thread uses. It is opened to read the last pass, and released
/// with this or the next pass.
private final class DueStore: Sendable {
  private let open: @Sendable () throws(BlobStoreError) -> BlobStore
  private let opened = Lock<BlobStore?>(nil)

  init(_ open: @escaping @Sendable () throws(BlobStoreError) -> BlobStore) { self.open = open }

  func lastPass() -> UnixTime? {
    // The pass will encounter the same error, and report it.
    let store = try? open()
    opened.withLock { $0 = store }
    return (try? store?.statistics())?.lastPass?.time
  }

  /// Returns the time by the clock of the store from which the last pass was read.
  func time() -> UnixTime {
    let configuration = opened.withLock { $0?.configuration } ?? BlobStore.Configuration()
    return configuration.now()
  }

  func take() throws(BlobStoreError) -> BlobStore {
    if let store = opened.withLock({ $0.take() }) { return store }
    return try open()
  }
}

package struct ScheduleClock: Sendable {
  package var now: @Sendable () -> Duration = SystemClock.monotonic
  /// A Boolean value that indicates whether the clock advances by itself. Otherwise, the schedule has to be woken.
  package var runs = true
  package var generator: any RandomNumberGenerator & Sendable = SystemRandomNumberGenerator()

  package init() {}
}

extension CollectionSchedule.Outcome {
  fileprivate func log(to logger: Logger) {
    switch self {
    case .finished(let report): logger.debug("collected \(report.directory): \(report.bytesFreed) bytes freed")
    case .skippedAsRecent(let lastPass): logger.debug("collection skipped: the last pass ended at \(lastPass.seconds)")
    case .skippedAsRunning(let error): logger.debug("\(error)")
    case .failed(let error): logger.warning("\(error)")
    }
  }
}

/// Limits how many of the schedules that share it run a pass at the same time.
public final class CollectionSlots: Sendable {
  private let free: Monitor<Int>

  /// Creates slots.
  ///
  /// - Parameter count: The number of slots, at least one.
  public init(_ count: Int) {
    free = Monitor(max(count, 1))
  }

  /// Waits for a slot. Returns `false`, without one, if the schedule has to stop.
  func take(unless isStopping: () -> Bool) -> Bool {
    free.wait { free in
      if isStopping() { return .done(false) }
      guard free > 0 else { return .wait(nil) }
      free -= 1
      return .done(true)
    }
  }

  func giveBack() {
    free.change { $0 += 1 }
  }

  /// Makes waiting schedules check whether they have to stop.
  func wake() {
    free.change { _ in }
  }
}
