internal import BlobRecord
internal import Posix

extension BlobStore {
  /// Makes one collection. It removes expired records, leftovers of dead writers and of damage, and empty
  /// subdirectories. If a limit is exceeded, unlocked records are evicted in the order of `Configuration.Limits.eviction`,
  /// by default the least frequently used first, down to the target. Default: nine tenths of the limit.
  ///
  /// A file to remove is chosen without a lock, and judged again under the record's stripe. Readers and writers of
  /// other keys never wait for it. Records that cannot be removed are logged and counted, and stay.
  ///
  /// - Throws: `collectionRunning` if any process is collecting the directory already; `notACache`, if the options ask
  ///   for that check; `fileSystem` if the pass could not be made.
  /// - Complexity: one walk over all records, and a second one where a limit is exceeded. It takes more walks where
  ///   very many update times lie close together and others far away. Memory does not grow with the number of records.
  @discardableResult
  public func collect(_ options: CollectionOptions = CollectionOptions()) throws(BlobStoreError) -> CollectionReport {
    try withErrorContext("collect") {
      let isCache = try !options.requiresCache || core.requireCache()
      return try CollectorLock(of: core).hold(options, isCache: isCache) {
        try CollectionRun(core, options, $0).collect()
      }
    }
  }

  /// Makes one collection that goes on until a goal is reached, below the limits too.
  ///
  /// Expired records go first, and count. Locked records stay. Each record is judged again under its stripe before it
  /// goes. The goal holds once: stores may exceed it the moment after.
  ///
  /// - Parameters:
  ///   - goal: what must be reached.
  ///   - options: as for `collect`. But every file is looked at. Without `waitsForOther`, the trim waits for another
  ///     collection under way, `lockTimeout` at most.
  /// - Returns: `evicted` counts the records that went for the goal. `recordsAfter` and `bytesAfter` tell whether it
  ///   was reached.
  /// - Throws: as `collect`.
  /// - Complexity: as `collect` with an exceeded limit.
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

  /// Tells an observer of collections from now on, instead of the one before.
  package func observeCollections(by observer: CollectionObserver) { core.collectionObservation.observer = observer }

  /// The work of collections in the directory. Zeros where there is no control file, or one without counters.
  ///
  /// Dry runs are not recorded, nor are collections of stores with `recordsCollections` off.
  ///
  /// - Complexity: O(1).
  public func statistics() throws(BlobStoreError) -> CollectionStatistics {
    try withErrorContext("statistics") {
      guard let open = try core.root.opened(), let control = core.countersFile(of: open) else {
        return CollectionStatistics()
      }
      var statistics = control.statistics
      // The clock was set back, or the value is rubbish: schedules must not wait for its time to come.
      if let last = statistics.lastPass, last.time > core.configuration.now() { statistics.lastPass = nil }
      return statistics
    }
  }
}
