public import BlobRecord
public import BlobStore

// Removals have a lane of their own: no load waits behind them.
extension BlobCache {
  /// Removes a key's record: live, expired, locked or damaged, staged or on disk.
  ///
  /// - Parameters:
  ///   - key: the key of the record.
  ///   - purging: whether its bytes go at once, and with them all files that wait to be overwritten, which may hold what the key
  ///     held earlier. See `BlobStore.remove(_:purging:)` for packed records.
  /// - Returns: `done`; `notFound` if there was none.
  /// - Throws: `BlobStoreError`; `CancellationError` while it waits for a thread; `closed`.
  @discardableResult
  public func remove(_ key: BlobKey, purging: Bool = false) async throws -> BlobStore.Outcome {
    let engine = try openEngine()
    return try await withSpan("remove", key) {
      try await engine.lanes.removals.run { queueTime in
        try engine.purging(purging) { try engine.remove(key, erasing: purging, queueTime: queueTime) }
      }
    }
  }

  /// Removes many records in one hop; a failure does not stop the others.
  public func remove(_ keys: some Sequence<BlobKey>, purging: Bool = false) async throws -> [BlobStore.KeyResult] {
    let engine = try openEngine()
    let keys = Array(keys)
    return try await withSpan("remove", nil) {
      try await engine.lanes.removals.run { queueTime in
        try engine.purging(purging) {
          engine.each(keys) { try engine.remove($0, erasing: purging, queueTime: queueTime) }
        }
      }
    }
  }

  /// Removes all records whose keys begin with a prefix, at any age and with any locks. Staged blobs are written first.
  ///
  /// Records stored during the removal may stay. What a remote tier has of these keys stays there, and comes back with a
  /// load: `removeEverywhere(prefix:)` removes both. A cancelled task ends it with the file in hand; the report says so.
  ///
  /// - Throws: as `BlobStore.remove(prefix:)`; `CancellationError` while it waits for a thread; `writeFailed`; `closed`.
  @discardableResult
  public func remove(prefix: String) async throws -> BlobStore.RemovalReport {
    let engine = try openEngine()
    return try await withSpan("removePrefix", nil) {
      try await CancellationFlag.during { flag in
        try await engine.lanes.removals.run { _ in try engine.remove(prefix: prefix, isStopped: flag.or(nil)) }
      }
    }
  }

  /// Removes records at any age. A task that is cancelled ends it with the file in hand; the report says so.
  ///
  /// - Throws: as `BlobStore.removeAll`; `CancellationError` while it waits for a thread; `writeFailed`; `closed`.
  @discardableResult
  public func removeAll(
    _ scope: BlobStore.RemovalScope, _ options: BlobStore.RemovalOptions = .init()
  ) async throws -> BlobStore.RemovalReport {
    let engine = try openEngine()
    return try await withSpan("removeAll", nil) {
      try await CancellationFlag.during { flag in
        var stoppable = options
        stoppable.isStopped = flag.or(options.isStopped)
        return try await engine.lanes.removals.run { [stoppable] _ in try engine.removeAll(scope, stoppable) }
      }
    }
  }
}
