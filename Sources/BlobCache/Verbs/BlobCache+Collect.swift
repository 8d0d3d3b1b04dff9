public import BlobStore

extension BlobCache {
  /// Makes one collection of the directory: removes what has expired and, with a limit, what was not used for longest.
  /// The uses that only memory knows of are brought to disk first.
  ///
  /// - Throws: as `BlobStore.collect`; `CancellationError` while it waits for a thread; `closed`.
  @discardableResult
  public func collect(_ options: CollectionOptions = CollectionOptions()) async throws -> CollectionReport {
    let engine = try openEngine()
    return try await withSpan("collect", nil) {
      try await engine.lanes.upkeep.run { _ in try engine.collect(options) }
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
