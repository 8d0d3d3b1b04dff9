public import BlobRecord
internal import Locks
public import Logging
internal import Posix
public import SystemPackage

/// Collects a store again and again, on a thread of its own.
///
/// It needs neither a run loop nor a thread of the concurrency runtime. Schedules of several processes may look after
/// one directory: a pass is skipped when the last one is younger than half the interval. A schedule stops with its last
/// reference.
public final class CollectionSchedule: Sendable {
  /// The outcome of a pass that was due.
  public enum Outcome: Sendable {
    case finished(BlobStore.CollectionReport)
    /// Another pass, by whichever process, ended then.
    case skippedAsRecent(lastPass: UnixTime)
    /// Another collection of the directory is under way; the error names its process, if known.
    case skippedAsRunning(BlobStoreError)
    /// The pass could not be made. The next is made all the same.
    case failed(BlobStoreError)
  }

  public let directory: FilePath
  let runner: CollectionRunner

  /// Makes a schedule, which does nothing before it is started.
  ///
  /// - Parameters:
  ///   - store: the store whose directory is collected.
  ///   - timing: when passes are due.
  ///   - options: what each pass does.
  ///   - slots: shared with other schedules, to bound how many passes are made at once; nil for no bound.
  ///   - report: receives what became of each pass, on the schedule's thread; nil to log failures.
  public convenience init(
    of store: BlobStore, timing: BlobStore.CollectionTiming = .init(),
    options: BlobStore.CollectionOptions = .init(), slots: CollectionSlots? = nil,
    report: (@Sendable (Outcome) -> Void)? = nil
  ) {
    self.init(
      of: store.directory, timing: timing, options: options, slots: slots, logger: store.configuration.logger,
      opening: { store }, report: report)
  }

  /// Makes a schedule that opens the directory's store for each pass, in constant time.
  ///
  /// So changes since the last pass count, for example the hint of a program that came later. It does nothing before it
  /// is started.
  ///
  /// - Parameters:
  ///   - directory: the directory that is collected.
  ///   - timing: when passes are due.
  ///   - options: what each pass does.
  ///   - slots: shared with other schedules, to bound how many passes are made at once; nil for no bound.
  ///   - logger: for warnings of the schedule itself; a store has its own.
  ///   - opening: called on the schedule's thread, for each pass that is due. An error that it throws makes a `failed`
  ///     pass.
  ///   - report: receives what became of each pass, on the schedule's thread; nil to log failures.
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

  /// - Parameters:
  ///   - clock: what to wait by.
  ///   - work: what to do instead of collecting a store.
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

  /// Starts the thread. A schedule that runs already, or was stopped, is left as it is.
  ///
  /// - Throws: `fileSystem` where the system has no thread to give.
  public func start() throws(BlobStoreError) {
    do {
      try runner.start()
    } catch {
      throw BlobStoreError(
        .fileSystem, "pthread_create(3): \(error)", path: directory, operation: "schedule",
        systemCall: "pthread_create(3)", errno: error)
    }
  }

  /// Begins no pass until `resume`; one under way is finished.
  public func pause() { runner.pause(true) }

  /// Goes on: a pass that became due meanwhile is made at once.
  public func resume() { runner.pause(false) }

  /// Ends the schedule for good, and a pass under way after its current step.
  ///
  /// Returns at once.
  public func stop() { runner.stop() }

  /// Blocks until a schedule that was told to stop has stopped. Not to be called from its `report`.
  public func waitUntilStopped() { runner.waitUntilStopped() }

  /// Returns when a schedule that was told to stop has stopped.
  public func stopped() async { await runner.stopped() }
}

/// The store of the pass that is due, used by the schedule's thread alone.
///
/// It is opened to ask for the last pass. It goes with the pass, or with the next that is due.
private final class DueStore: Sendable {
  private let open: @Sendable () throws(BlobStoreError) -> BlobStore
  private let opened = Lock<BlobStore?>(nil)

  init(_ open: @escaping @Sendable () throws(BlobStoreError) -> BlobStore) { self.open = open }

  func lastPass() -> UnixTime? {
    // An error here will also stop the pass, which reports it.
    let store = try? open()
    opened.withLock { $0 = store }
    return (try? store?.statistics())?.lastPass?.time
  }

  /// By the clock of the store that was asked for the last pass.
  func time() -> UnixTime {
    let configuration = opened.withLock { $0?.configuration } ?? BlobStore.Configuration()
    return configuration.now()
  }

  func take() throws(BlobStoreError) -> BlobStore {
    if let store = opened.withLock({ $0.take() }) { return store }
    return try open()
  }
}

/// The clock that a schedule waits by.
package struct ScheduleClock: Sendable {
  package var now: @Sendable () -> Duration = SystemClock.monotonic
  /// Whether it goes forward by itself. For one that does not, the schedule is told.
  package var runs = true
  /// For the jitter.
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

/// Bounds how many of the schedules that share it make a pass at the same time.
public final class CollectionSlots: Sendable {
  private let free: Monitor<Int>

  /// - Parameter count: at least one.
  public init(_ count: Int) {
    free = Monitor(max(count, 1))
  }

  /// Waits for a slot.
  ///
  /// - Returns: false, without one, if the schedule is to stop.
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

  /// Makes waiting schedules look whether they must stop.
  func wake() {
    free.change { _ in }
  }
}
