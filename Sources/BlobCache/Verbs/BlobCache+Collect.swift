public import BlobStore

extension BlobCache {
  /// Makes one collection of the directory: removes what has expired and, with a limit, what was not used for longest.
  /// The uses that only memory knows of are brought to disk first. A task that is cancelled ends it with the file in hand;
  /// the report says so.
  ///
  /// - Throws: as `BlobStore.collect`; `CancellationError` while it waits for a thread; `closed`.
  @discardableResult
  public func collect(_ options: CollectionOptions = CollectionOptions()) async throws -> CollectionReport {
    let engine = try openEngine()
    return try await withSpan("collect", nil) {
      try await CancellationFlag.during { flag in
        let options = options.stopping(with: flag).givingUp { self.isClosed }
        return try await engine.lanes.upkeep.run { _ in try engine.collect(options) }
      }
    }
  }

  /// Makes one collection that goes on until a goal is reached, whatever the limits are: so many bytes or records, or none
  /// that was last updated before a time, or is larger than a size. What has expired goes first, then the oldest; locked
  /// records stay. Blobs that are staged are written first. A cancelled task ends it as it ends `collect`.
  ///
  /// - Returns: `evicted` counts the records that went for the goal.
  /// - Throws: as `BlobStore.trim`; `CancellationError` while it waits for a thread; `writeFailed`; `closed`.
  @discardableResult
  public func trim(
    to goal: TrimGoal, _ options: CollectionOptions = CollectionOptions()
  ) async throws -> CollectionReport {
    let engine = try openEngine()
    return try await withSpan("trim", nil) {
      try await CancellationFlag.during { flag in
        let options = options.stopping(with: flag).givingUp { self.isClosed }
        return try await engine.lanes.upkeep.run { _ in try engine.trim(to: goal, options) }
      }
    }
  }

  /// Counts what the directory holds. Blobs that are staged are written first.
  ///
  /// - Throws: as `BlobStore.usage`; `CancellationError` while it waits for a thread; `writeFailed`; `closed`.
  /// - Complexity: a walk over all records.
  public func usage() async throws -> Usage {
    let engine = try openEngine()
    return try await engine.lanes.scans.run { _ in
      try engine.flushStaged()
      return try engine.store.usage()
    }
  }

  /// What the directory holds by the counters that every change keeps, without looking at a record; nil where they are
  /// not known yet. What is staged is not in it.
  ///
  /// - Complexity: O(1).
  public func usageEstimate() async throws -> UsageEstimate? {
    let engine = try openEngine()
    return try await engine.lanes.reads.run { _ in try engine.store.usageEstimate() }
  }
}

// MARK: - Schedule

extension BlobCache {
  /// Has the directory collected again and again, on a thread of its own, until `unscheduleCollection` or the end of the
  /// cache. A pass is left out when another process has made one lately. A second call takes the first one's place, also
  /// one through another cache of this process on the directory.
  ///
  /// A store keeps the size limit without a schedule; what has only expired stays on disk without one.
  ///
  /// - Throws: `BlobStoreError` `fileSystem` where the system has no thread to give; `closed`.
  public func scheduleCollection(
    _ timing: CollectionTiming = CollectionTiming(), options: CollectionOptions = CollectionOptions()
  ) throws {
    try openEngine().scheduleCollection(timing, options)
  }

  /// Ends the schedule, and the pass under way after the step in hand. Without a schedule, nothing happens.
  public func unscheduleCollection() {
    engine.rota.stop()
  }
}

extension CollectionOptions {
  fileprivate func stopping(with flag: CancellationFlag) -> CollectionOptions {
    var options = self
    options.isStopped = flag.or(isStopped)
    return options
  }

  /// Gives up the wait for another collection once `isClosed`: what closes a cache waits for nothing that waits.
  func givingUp(once isClosed: @escaping @Sendable () -> Bool) -> CollectionOptions {
    var options = self
    options.givesUpWaiting = isClosed
    return options
  }
}
