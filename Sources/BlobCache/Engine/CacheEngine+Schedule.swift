internal import BlobStore
internal import Logging
internal import Locks

extension CacheEngine {
  /// Starts a schedule of collections in the place of the one there is.
  ///
  /// - Throws: `fileSystem` where the system has no thread to give.
  func scheduleCollection(_ timing: BlobStore.CollectionTiming, _ options: BlobStore.CollectionOptions) throws {
    let logger = store.configuration.logger
    timing.warnIfRaised(logger)
    // Weakly, so that a schedule ends with the cache it looks after.
    let work = CollectionRunner.Work(
      time: store.configuration.now,
      // The error is harmless: without a last pass the due one is made, and reports the same error.
      lastPass: { [store] in (try? store.statistics())?.lastPass?.time },
      pass: { [weak self, directory = store.directory] isStopping throws(BlobStoreError) in
        var options = options
        options.isStopped = isStopping
        return try self?.collect(options) ?? BlobStore.CollectionReport(directory: directory)
      },
      report: { outcome in
        switch outcome {
        case .finished(let report): logger.debug("collected \(report.directory): \(report.bytesFreed) bytes freed")
        case .skippedAsRecent: break
        case .skippedAsRunning(let error): logger.debug("\(error)")
        case .failed(let error): logger.warning("\(error)")
        }
      })
    let next = CollectionSchedule(
      of: store.directory, timing: timing, slots: nil, clock: ScheduleClock(), work: work)
    let last = schedule.withLock { schedule in
      defer { schedule = next }
      return schedule
    }
    last?.stop()
    try next.start()
  }

  func stopSchedule() {
    let last = schedule.withLock { $0.take() }
    last?.stop()
  }
}
