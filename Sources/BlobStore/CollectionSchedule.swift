public import BlobRecord
internal import Logging
internal import PosixFiles
public import SystemPackage

/// Collects a store again and again, on a thread of its own: a pass blocks, and needs neither a run loop nor a thread of
/// the concurrency runtime.
///
/// Several schedules, of whatever processes, may look after one directory: a pass is left out when the last one is
/// younger than half the interval. A schedule that nobody holds any more stops.
public final class CollectionSchedule: Sendable {
  /// What became of a pass that was due.
  public enum Outcome: Sendable {
    case finished(CollectionReport)
    /// Another pass, by whichever process, ended then.
    case skippedAsRecent(lastPass: UnixTime)
    /// Somebody is collecting the directory right now; the error says who, where that is known.
    case skippedAsRunning(BlobStoreError)
    /// The pass could not be made. The next is made all the same.
    case failed(BlobStoreError)
  }

  public let directory: FilePath
  private let runner: CollectionRunner

  /// Makes a schedule, which does nothing before it is started.
  ///
  /// - Parameters:
  ///   - slots: shared with other schedules, to bound how many passes are made at once; nil for no bound.
  ///   - report: receives what became of each pass, on the schedule's thread; nil to log failures.
  public convenience init(
    of store: BlobStore, timing: CollectionTiming = CollectionTiming(),
    options: CollectionOptions = CollectionOptions(), slots: CollectionSlots? = nil,
    report: (@Sendable (Outcome) -> Void)? = nil
  ) {
    let logger = store.configuration.logger
    timing.warnIfRaised(logger)
    self.init(
      of: store.directory, timing: timing, slots: slots, clock: ScheduleClock(),
      work: CollectionRunner.Work(
        time: store.configuration.now,
        // What keeps them from being read will keep the pass from being made, which reports it.
        lastPass: { (try? store.statistics())?.lastPass?.time },
        pass: { isStopping throws(BlobStoreError) in
          var options = options
          options.isStopped = isStopping
          return try store.collect(options)
        },
        report: report ?? { $0.log(to: logger) }))
  }

  /// - Parameters:
  ///   - clock: what to wait by.
  ///   - work: what to do instead of collecting a store.
  package init(
    of directory: FilePath, timing: CollectionTiming, slots: CollectionSlots?, clock: ScheduleClock,
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

  /// Ends the schedule for good, and the pass under way, if there is one, after the step in hand. Returns at once.
  public func stop() { runner.stop() }

  /// Blocks until a schedule that was told to stop has stopped. Not to be called from its `report`.
  public func waitUntilStopped() { runner.waitUntilStopped() }

  /// Returns when a schedule that was told to stop has stopped.
  public func stopped() async { await runner.stopped() }

  /// For clocks that tests set: has the schedule look again.
  package func clockWasSet() { runner.wake() }
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
