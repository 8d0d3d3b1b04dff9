public import BlobRecord
public import BlobStore
public import MemoryCache

// Removals have their own lane, so that loads never wait for them.
extension BlobCache {
  /// Removes a key's record, whether live, expired, locked, damaged, staged or on disk.
  ///
  /// - Parameters:
  ///   - key: The key of the record.
  ///   - purging: A Boolean value that indicates whether to erase the bytes immediately, and all files in the
  ///     recycling bin, which may contain earlier blobs of the key. For packs, see `BlobStore.remove(_:purging:)`.
  /// - Returns: `done`, or `notFound` if no record exists.
  /// - Throws: `BlobStoreError`, `CancellationError` while it waits for a thread, or `closed`.
  @discardableResult
  public func remove(_ key: BlobKey, purging: Bool = false) async throws -> BlobStore.Outcome {
    let engine = try openEngine()
    return try await withSpan("remove", key) {
      try await engine.lanes.removals.run { queueTime in
        try engine.purging(purging) { try engine.remove(key, erasing: purging, queueTime: queueTime) }
      }
    }
  }

  /// Removes many records in one call on a thread of the cache; a failure does not stop the others.
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

  /// Removes all records whose keys have a prefix, at any age and with any locks, after staged blobs are written.
  ///
  /// Records stored during the removal may remain. Objects of a remote tier are not removed, and are loaded again on
  /// demand: `removeEverywhere(prefix:)` removes both. A cancelled removal stops after the current file and reports
  /// this.
  ///
  /// - Throws: `CancellationError`, `writeFailed`, `closed`, and the errors of `BlobStore.remove(prefix:)`.
  @discardableResult
  public func remove(prefix: String) async throws -> BlobStore.RemovalReport {
    let engine = try openEngine()
    return try await withSpan("removePrefix", nil) {
      try await CancellationFlag.during { flag in
        try await engine.lanes.removals.run { _ in try engine.remove(prefix: prefix, isStopped: flag.or(nil)) }
      }
    }
  }

  /// Removes records at any age; if the task is cancelled, the removal stops after the current file and reports this.
  ///
  /// - Throws: `CancellationError`, `writeFailed`, `closed`, and the errors of `BlobStore.removeAll`.
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

// Methods for the blobs in memory, which do not affect the disk.
extension BlobCache {
  /// Removes a blob from memory, but not its record.
  public func removeFromMemory(_ key: BlobKey) { engine.memory?.discard(key) }

  /// Removes all blobs from memory, but not their records, for example when an app enters the background.
  public func removeAllFromMemory() { engine.memory?.cache.removeAll() }

  /// Evicts blobs from memory until the others take at most this number of bytes.
  public func trimMemory(toByteCount byteCount: Int) { engine.memory?.cache.trim(toCost: byteCount) }

  /// Evicts blobs from memory until at most this number is left.
  public func trimMemory(toCount count: Int) { engine.memory?.cache.trim(toCount: count) }

  /// Removes blobs from memory that were unused for longer than the given duration.
  public func trimMemory(toAge age: Duration) { engine.memory?.cache.trim(toAge: age) }

  /// Frees memory as under memory pressure of the system, for programs with better information.
  public func respondToMemoryPressure(_ pressure: MemoryPressure) { engine.memory?.cache.respond(to: pressure) }
}
