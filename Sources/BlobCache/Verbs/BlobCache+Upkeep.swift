public import BlobStore
public import SystemPackage

// Upkeep walks over whole directories, on the lane of listings.
extension BlobCache {
  /// Checks every record of the directory, expired ones too. Staged blobs are written first.
  ///
  /// - Parameters:
  ///   - policy: what becomes of damaged files.
  ///   - visit: receives each finding as it is made, on a thread of the cache.
  /// - Throws: as `BlobStore.verify`; `CancellationError` while it waits for a thread; `writeFailed`; `closed`.
  /// - Complexity: reads every byte of the directory once.
  public func verify(
    repairing policy: BlobStore.DamagePolicy = .report,
    _ visit: @escaping @Sendable (BlobStore.VerificationFinding) -> Void = { _ in }
  ) async throws -> BlobStore.VerificationReport {
    let engine = try openEngine()
    return try await withSpan("verify", nil) {
      try await engine.lanes.scans.run { _ in try engine.verify(repairing: policy, visit) }
    }
  }

  /// Stores every file of a directory, which stays as it is: a plain one, or another library's cache.
  ///
  /// - Parameters:
  ///   - directory: the directory whose files are imported.
  ///   - options: which files, under which keys, and for how long.
  ///   - visit: receives what became of each file, on a thread of the cache.
  /// - Throws: as `BlobStore.importFiles`; `CancellationError` while it waits for a thread; `writeFailed`; `closed`.
  @discardableResult
  public func importFiles(
    from directory: FilePath, _ options: BlobStore.ImportOptions = .init(),
    _ visit: @escaping @Sendable (BlobStore.ImportFinding) -> Void = { _ in }
  ) async throws -> BlobStore.ImportReport {
    let engine = try openEngine()
    return try await withSpan("import", nil) {
      try await engine.lanes.scans.run { _ in try engine.importFiles(from: directory, options, visit) }
    }
  }

  /// The work of collections in the directory, in all processes.
  ///
  /// - Throws: as `BlobStore.statistics`; `CancellationError` while it waits for a thread; `closed`.
  /// - Complexity: O(1).
  public func statistics() async throws -> BlobStore.CollectionStatistics {
    let engine = try openEngine()
    return try await engine.lanes.reads.run { _ in try engine.store.statistics() }
  }

  /// The last whole collections of the directory, by all processes, the latest first: `BlobStore.recentPasses`.
  ///
  /// - Throws: as `BlobStore.recentPasses`; `CancellationError` while it waits for a thread; `closed`.
  /// - Complexity: O(1).
  package func recentPasses() async throws -> [BlobStore.RecentPass] {
    let engine = try openEngine()
    return try await engine.lanes.reads.run { _ in try engine.store.recentPasses() }
  }

  /// Hits, misses and stores in the directory, of all processes.
  ///
  /// - Throws: as `BlobStore.traffic`; `CancellationError` while it waits for a thread; `closed`.
  /// - Complexity: O(1).
  public func traffic() async throws -> BlobStore.Traffic {
    let engine = try openEngine()
    return try await engine.lanes.reads.run { _ in try engine.store.traffic() }
  }
}

extension BlobCache {
  /// Makes one collection of the directory.
  ///
  /// It removes expired records and, with a limit, those that are first in the order of eviction. Uses that only memory knows are written
  /// first. A cancelled task ends it after the current file, and the report says so.
  ///
  /// - Throws: as `BlobStore.collect`; `CancellationError` while it waits for a thread; `closed`.
  @discardableResult
  public func collect(_ options: BlobStore.CollectionOptions = .init()) async throws -> BlobStore.CollectionReport {
    let engine = try openEngine()
    return try await withSpan("collect", nil) {
      try await CancellationFlag.during { flag in
        let options = options.stopping(with: flag).givingUp { self.isClosed }
        return try await engine.lanes.upkeep.run { _ in try engine.collect(options) }
      }
    }
  }

  /// Makes one collection that goes on until a goal is reached, below the limits too.
  ///
  /// A goal is a number of bytes or records, a last update, or a size of payloads. Expired records go first, then the
  /// oldest. Locked records stay. Staged blobs are written first. A cancelled task ends it as it ends `collect`.
  ///
  /// - Returns: `evicted` counts the records that went for the goal.
  /// - Throws: as `BlobStore.trim`; `CancellationError` while it waits for a thread; `writeFailed`; `closed`.
  @discardableResult
  public func trim(
    to goal: BlobStore.TrimGoal, _ options: BlobStore.CollectionOptions = .init()
  ) async throws -> BlobStore.CollectionReport {
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
  public func usage() async throws -> BlobStore.Usage {
    let engine = try openEngine()
    return try await engine.lanes.scans.run { _ in
      try engine.flushStaged()
      return try engine.store.usage()
    }
  }

  /// The directory's contents by its counters; nil while they are unknown.
  ///
  /// Every change keeps them, so no record is looked at. Staged blobs are not counted.
  ///
  /// - Complexity: O(1).
  public func usageEstimate() async throws -> BlobStore.UsageEstimate? {
    let engine = try openEngine()
    return try await engine.lanes.reads.run { _ in try engine.store.usageEstimate() }
  }

  /// What the packs of the directory take, without a look at a record. Zeros where it has none.
  ///
  /// - Complexity: O(*n*) for *n* packs, once they are open.
  public func packUsage() async throws -> BlobStore.PackUsage {
    let engine = try openEngine()
    return try await engine.lanes.reads.run { _ in try engine.store.packUsage() }
  }
}

// MARK: - Schedule

extension BlobCache {
  /// Collects the directory again and again, on a thread of its own.
  ///
  /// It goes on until the end of the cache. A pass is skipped when another process has made
  /// one lately. A later call replaces this schedule, also through another cache of this process on the directory.
  ///
  /// A store keeps the size limit without a schedule. Expired blobs stay on disk without one.
  ///
  /// - Throws: `BlobStoreError` `fileSystem` where the system has no thread to give; `closed`.
  public func scheduleCollection(
    _ timing: BlobStore.CollectionTiming = .init(), options: BlobStore.CollectionOptions = .init()
  ) throws {
    try openEngine().scheduleCollection(timing, options)
  }
}

extension BlobStore.CollectionOptions {
  fileprivate func stopping(with flag: CancellationFlag) -> BlobStore.CollectionOptions {
    var options = self
    options.isStopped = flag.or(isStopped)
    return options
  }

  /// Gives up the wait for another collection once `isClosed`.
  ///
  /// So the closing of a cache waits for no wait.
  func givingUp(once isClosed: @escaping @Sendable () -> Bool) -> BlobStore.CollectionOptions {
    var options = self
    options.givesUpWaiting = isClosed
    return options
  }
}
