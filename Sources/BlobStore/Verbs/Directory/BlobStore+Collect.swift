internal import BlobRecord
internal import Posix

extension BlobStore {
  /// Runs one collection.
  ///
  /// It removes expired records, files that dead writers and damage have left, and empty subdirectories. If a limit
  /// is exceeded, it evicts unlocked records in the order of `Configuration.Limits.eviction`, by default the least
  /// frequently used first, down to the target, by default nine tenths of the limit. A file is selected without a
  /// lock, and judged again under the record's stripe. Readers, and writers of other keys, never wait for a
  /// collection. Records that cannot be removed are logged, counted and kept.
  ///
  /// - Throws: `collectionRunning` if any process is already collecting the directory; `notACache` if the options
  ///   require that check; `fileSystem` if the pass failed.
  /// - Complexity: One walk over all records, and a second one if a limit is exceeded. It takes more walks if very
  ///   many update times are close together and others far away. Memory does not grow with the number of records.
  @discardableResult
  public func collect(_ options: CollectionOptions = CollectionOptions()) throws(BlobStoreError) -> CollectionReport {
    try withErrorContext("collect") {
      let isCache = try !options.requiresCache || Records(core).requireCache()
      return try CollectorLock(of: core).hold(options, isCache: isCache) {
        try CollectionRun(core, options, $0).collect()
      }
    }
  }

  /// Runs one collection that continues until a goal is reached, even below the limits.
  ///
  /// Expired records are removed first, and count towards the goal. Locked records are kept. Each record is judged
  /// again under its stripe before it is removed. Stores may exceed the goal immediately afterwards.
  ///
  /// - Parameters:
  ///   - goal: The goal of the collection.
  ///   - options: The options, as for `collect`, except that every file is examined. Without `waitsForOther`, the
  ///     trim waits at most `lockTimeout` for another running collection.
  /// - Returns: The report. `evicted` counts the records removed for the goal, `recordsAfter` and `bytesAfter` the
  ///   rest.
  /// - Throws: The errors of `collect`.
  /// - Complexity: As `collect` with an exceeded limit.
  @discardableResult
  public func trim(
    to goal: TrimGoal, _ options: CollectionOptions = CollectionOptions()
  ) throws(BlobStoreError) -> CollectionReport {
    var options = options
    options.goal = goal
    options.looksAtEverything = true
    options.waitsForOther = options.waitsForOther ?? configuration.access.lockTimeout
    return try collect(options)
  }

  /// Sets the observer that is notified of collections, and replaces the previous one.
  package func observeCollections(by observer: CollectionObserver) { core.collectionObservation.observer = observer }

  /// Returns the statistics of the directory's collections, or zeros without a control file that has counters.
  ///
  /// Dry runs and collections of stores with `recordsCollections` off are not recorded.
  ///
  /// - Complexity: O(1).
  public func statistics() throws(BlobStoreError) -> CollectionStatistics {
    try withErrorContext("statistics") {
      guard let open = try core.root.opened(), let control = core.countersFile(of: open) else {
        return CollectionStatistics()
      }
      var statistics = control.statistics
      // If the clock was set back or the value is invalid, schedules must not wait for that time.
      if let last = statistics.lastPass, last.time > core.configuration.now() { statistics.lastPass = nil }
      return statistics
    }
  }
}
