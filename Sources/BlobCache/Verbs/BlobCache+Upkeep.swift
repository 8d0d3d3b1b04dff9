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
