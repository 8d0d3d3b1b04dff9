public import BlobRecord
public import BlobStore

// A staged blob is written before its record is touched, locked or unlocked.
extension BlobCache {
  /// Sets the update time of a record with ttl 0 to now; a record with another ttl is unchanged.
  ///
  /// - Returns: `done`, or `notFound` if no live record exists.
  /// - Throws: `BlobStoreError`, `CancellationError` while it waits for a thread, `writeFailed` or `closed`.
  @discardableResult
  public func touch(_ key: BlobKey) async throws -> BlobStore.Outcome {
    try await change("touch", key) { engine in try engine.touch(key) }
  }

  /// Sets the update time of a live record to now, whatever its time to live.
  @discardableResult
  package func renew(_ key: BlobKey) async throws -> BlobStore.Outcome {
    try await change("renew", key) { engine in try engine.renew(key) }
  }

  /// Adds a lock to a live record, which then does not expire until it is unlocked.
  ///
  /// - Returns: `done`, or `notFound` if no live record exists.
  /// - Throws: `lockCountOverflow`, and the errors of `touch`.
  @discardableResult
  public func lock(_ key: BlobKey) async throws -> BlobStore.Outcome {
    try await change("lock", key) { engine in try engine.lock(key) }
  }

  /// Removes a lock from a live record.
  ///
  /// - Parameters:
  ///   - key: The key of the record.
  ///   - force: A Boolean value that indicates whether to remove all locks.
  /// - Returns: `done`, `notLocked` if the record has no lock, or `notFound` if no live record exists.
  /// - Throws: The errors of `touch`.
  @discardableResult
  public func unlock(_ key: BlobKey, force: Bool = false) async throws -> BlobStore.Outcome {
    try await change("unlock", key) { engine in try engine.unlock(key, force: force) }
  }

  /// Touches many records in one call on a thread of the cache; a failure does not stop the others.
  public func touch(_ keys: some Sequence<BlobKey>) async throws -> [BlobStore.KeyResult] {
    try await change("touch", keys) { engine, key in try engine.touch(key) }
  }

  /// Locks many records in one call on a thread of the cache; a failure does not stop the others.
  public func lock(_ keys: some Sequence<BlobKey>) async throws -> [BlobStore.KeyResult] {
    try await change("lock", keys) { engine, key in try engine.lock(key) }
  }

  /// Unlocks many records in one call on a thread of the cache; a failure does not stop the others.
  public func unlock(_ keys: some Sequence<BlobKey>, force: Bool = false) async throws -> [BlobStore.KeyResult] {
    try await change("unlock", keys) { engine, key in try engine.unlock(key, force: force) }
  }

  private func change(
    _ name: String, _ key: BlobKey, _ operation: @escaping @Sendable (CacheEngine) throws -> BlobStore.Outcome
  ) async throws -> BlobStore.Outcome {
    let engine = try openEngine()
    return try await withSpan(name, key) {
      try await engine.placeFetched(key)
      return try await engine.lanes.writes.run { _ in try operation(engine) }
    }
  }

  private func change(
    _ name: String, _ keys: some Sequence<BlobKey>,
    _ operation: @escaping @Sendable (CacheEngine, BlobKey) throws -> BlobStore.Outcome
  ) async throws -> [BlobStore.KeyResult] {
    let engine = try openEngine()
    let keys = Array(keys)
    return try await withSpan(name, nil) {
      for key in keys { try await engine.placeFetched(key) }
      return try await engine.lanes.writes.run { _ in engine.each(keys) { try operation(engine, $0) } }
    }
  }
}

// MARK: - Extended data

extension BlobCache {
  /// Returns the extended data of a key's record on disk, or of its staged blob, without reading the payload.
  ///
  /// - Returns: The data, or `nil` if no live record exists, or it has no extended data.
  /// - Throws: `BlobStoreError`, `CancellationError` while it waits for a thread, or `closed`.
  public func extendedData(for key: BlobKey) async throws -> Data? {
    let engine = try openEngine()
    return try await withSpan("extendedData", key) {
      try await engine.placeFetched(key)
      return try await engine.lanes.reads.run { _ in try engine.extendedData(for: key) }
    }
  }

  /// Replaces the extended data of a record, and preserves its payload, locks and age.
  ///
  /// A staged blob of the key is written first. The blob is removed from memory.
  ///
  /// - Parameters:
  ///   - data: The new data of at most 4 KiB, or `nil` or empty data to remove the current data.
  ///   - key: The key of the record.
  /// - Returns: `done`, or `notFound` if no live record exists.
  /// - Throws: `extendedDataTooLarge`, `extendedDataRefused` in a directory that SPTPersistentCache may share,
  ///   `writeFailed`, and the errors of `extendedData(for:)`.
  @discardableResult
  public func setExtendedData(_ data: Data?, for key: BlobKey) async throws -> BlobStore.Outcome {
    let engine = try openEngine()
    let outcome = try await withSpan("setExtendedData", key) {
      try await engine.placeFetched(key)
      return try await engine.lanes.writes.run { _ in try engine.setExtendedData(data, for: key) }
    }
    if outcome == .done { await engine.wasStored(key) }
    return outcome
  }
}

// Without these, a string would select the overloads for sequences of keys, with a confusing error about characters.
extension BlobCache {
  @available(*, unavailable, message: "a key is a BlobKey: write BlobKey(string)")
  public func load(_ key: String, touching: Bool = true) async throws -> Blob? { fatalError("unavailable") }

  @available(*, unavailable, message: "a key is a BlobKey: write BlobKey(string)")
  public func load(
    _ key: String, options: ProductionOptions = ProductionOptions(),
    orStore produce: @escaping @Sendable () async throws -> Data
  ) async throws -> Blob { fatalError("unavailable") }

  @available(*, unavailable, message: "a key is a BlobKey: write BlobKey(string)")
  public func remove(_ key: String, purging: Bool = false) async throws -> BlobStore.Outcome {
    fatalError("unavailable")
  }

  @available(*, unavailable, message: "a key is a BlobKey: write BlobKey(string)")
  public func touch(_ key: String) async throws -> BlobStore.Outcome { fatalError("unavailable") }

  @available(*, unavailable, message: "a key is a BlobKey: write BlobKey(string)")
  public func lock(_ key: String) async throws -> BlobStore.Outcome { fatalError("unavailable") }

  @available(*, unavailable, message: "a key is a BlobKey: write BlobKey(string)")
  public func unlock(_ key: String, force: Bool = false) async throws -> BlobStore.Outcome { fatalError("unavailable") }
}
