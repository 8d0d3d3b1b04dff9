public import BlobStore
public import SystemPackage

// Maintenance walks over whole directories, on the lane of enumerations.
extension BlobCache {
  /// Checks every record of the directory, including expired ones, after staged blobs are written.
  ///
  /// - Parameters:
  ///   - policy: The treatment of damaged files.
  ///   - visit: Receives each finding during the verification, on a thread of the cache.
  /// - Throws: `CancellationError`, `writeFailed`, `closed`, and the errors of `BlobStore.verify`.
  /// - Complexity: Reads every byte of the directory once.
  public func verify(
    repairing policy: BlobStore.DamagePolicy = .report,
    _ visit: @escaping @Sendable (BlobStore.VerificationFinding) -> Void = { _ in }
  ) async throws -> BlobStore.VerificationReport {
    let engine = try openEngine()
    return try await withSpan("verify", nil) {
      try await engine.lanes.scans.run { _ in try engine.verify(repairing: policy, visit) }
    }
  }

  /// Stores every file of a directory, such as another library's cache, without changing that directory.
  ///
  /// - Parameters:
  ///   - directory: The directory whose files are imported.
  ///   - options: The selection of files, their keys and their time to live.
  ///   - visit: Receives the outcome for each file, on a thread of the cache.
  /// - Throws: `CancellationError`, `writeFailed`, `closed`, and the errors of `BlobStore.importFiles`.
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

  /// Returns the statistics of collections in the directory by all processes.
  ///
  /// - Throws: `CancellationError` while it waits for a thread, `closed`, and the errors of `BlobStore.statistics`.
  /// - Complexity: O(1).
  public func statistics() async throws -> BlobStore.CollectionStatistics {
    let engine = try openEngine()
    return try await engine.lanes.reads.run { _ in try engine.store.statistics() }
  }

  /// Returns the last complete collections of the directory by all processes, the latest first.
  package func recentPasses() async throws -> [BlobStore.RecentPass] {
    let engine = try openEngine()
    return try await engine.lanes.reads.run { _ in try engine.store.recentPasses() }
  }

  /// Returns the numbers of hits, misses and stores in the directory by all processes.
  ///
  /// - Throws: `CancellationError` while it waits for a thread, `closed`, and the errors of `BlobStore.traffic`.
  /// - Complexity: O(1).
  public func traffic() async throws -> BlobStore.Traffic {
    let engine = try openEngine()
    return try await engine.lanes.reads.run { _ in try engine.store.traffic() }
  }
}

extension BlobCache {
  /// Performs one collection, which removes expired records and, if a limit is exceeded, evicts others.
  ///
  /// Uses that are known only in memory are written first. A cancelled collection stops after the current file and
  /// reports this.
  ///
  /// - Throws: `CancellationError` while it waits for a thread, `closed`, and the errors of `BlobStore.collect`.
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

  /// Performs one collection that continues until a goal is reached, even below the limits.
  ///
  /// A goal is a number of bytes or records, a last update, or a size of payloads. Expired records are removed first,
  /// then the first in the order of eviction; locked records are kept. Staged blobs are written first. Cancellation is as in `collect`.
  ///
  /// - Returns: A report whose `evicted` is the number of records that were removed for the goal.
  /// - Throws: `CancellationError`, `writeFailed`, `closed`, and the errors of `BlobStore.trim`.
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

  /// Counts the contents of the directory, after staged blobs are written.
  ///
  /// - Throws: `CancellationError`, `writeFailed`, `closed`, and the errors of `BlobStore.usage`.
  /// - Complexity: A walk over all records.
  public func usage() async throws -> BlobStore.Usage {
    let engine = try openEngine()
    return try await engine.lanes.scans.run { _ in
      try engine.flushStaged()
      return try engine.store.usage()
    }
  }

  /// Returns the contents of the directory by its counters, without staged blobs, or `nil` while they are unknown.
  ///
  /// - Complexity: O(1), because every change updates the counters.
  public func usageEstimate() async throws -> BlobStore.UsageEstimate? {
    let engine = try openEngine()
    return try await engine.lanes.reads.run { _ in try engine.store.usageEstimate() }
  }

  /// Returns the space that the packs of the directory use, without reading records, or zeros without packs.
  ///
  /// - Complexity: O(*n*) for *n* packs, once they are open.
  public func packUsage() async throws -> BlobStore.PackUsage {
    let engine = try openEngine()
    return try await engine.lanes.reads.run { _ in try engine.store.packUsage() }
  }
}

// MARK: - Schedule

extension BlobCache {
  /// Schedules regular collections of the directory on a separate thread, until the cache is closed.
  ///
  /// A pass is skipped if another process has recently made one. A later call replaces this schedule, even through
  /// another cache of this process. Without a schedule, stores enforce the size limit, but expired blobs stay on disk.
  ///
  /// - Throws: `BlobStoreError` `fileSystem` if the system cannot create a thread, or `closed`.
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

  /// Makes the wait for another collection end once `isClosed`, so that it does not delay closing a cache.
  func givingUp(once isClosed: @escaping @Sendable () -> Bool) -> BlobStore.CollectionOptions {
    var options = self
    options.givesUpWaiting = isClosed
    return options
  }
}
