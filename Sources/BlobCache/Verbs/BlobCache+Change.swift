public import BlobRecord
public import BlobStore

// A blob staged for a key is written before its record is touched, locked or unlocked.
extension BlobCache {
  /// Sets the update time of a record with ttl 0 to now.
  ///
  /// A record with a ttl of its own stays as it is.
  ///
  /// - Returns: `done`; `notFound` if there is no live record.
  /// - Throws: `BlobStoreError`; `CancellationError` while it waits for a thread; `writeFailed`; `closed`.
  @discardableResult
  public func touch(_ key: BlobKey) async throws -> BlobStore.Outcome {
    try await change("touch", key) { engine in try engine.touch(key) }
  }

  /// Sets the update time of a live record to now, whatever its time to live.
  ///
  /// - Returns: `done`; `notFound` if there is no live record.
  /// - Throws: as `touch`.
  @discardableResult
  package func renew(_ key: BlobKey) async throws -> BlobStore.Outcome {
    try await change("renew", key) { engine in try engine.renew(key) }
  }

  /// Adds a lock to a live record, which then lives until it is unlocked.
  ///
  /// - Returns: `done`; `notFound` if there is no live record.
  /// - Throws: as `touch`, and `lockCountOverflow`.
  @discardableResult
  public func lock(_ key: BlobKey) async throws -> BlobStore.Outcome {
    try await change("lock", key) { engine in try engine.lock(key) }
  }

  /// Takes a lock off a live record.
  ///
  /// - Parameters:
  ///   - key: the record's.
  ///   - force: whether to take all locks off.
  /// - Returns: `done`; `notLocked` if there was no lock; `notFound` if there is no live record.
  /// - Throws: as `touch`.
  @discardableResult
  public func unlock(_ key: BlobKey, force: Bool = false) async throws -> BlobStore.Outcome {
    try await change("unlock", key) { engine in try engine.unlock(key, force: force) }
  }

  /// Touches many records in one hop; a failure does not stop the others.
  public func touch(_ keys: some Sequence<BlobKey>) async throws -> [BlobStore.KeyResult] {
    try await change("touch", keys) { engine, key in try engine.touch(key) }
  }

  /// Locks many records in one hop; a failure does not stop the others.
  public func lock(_ keys: some Sequence<BlobKey>) async throws -> [BlobStore.KeyResult] {
    try await change("lock", keys) { engine, key in try engine.lock(key) }
  }

  /// Unlocks many records in one hop; a failure does not stop the others.
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
  /// What lies beside a key's payload on disk, or beside its staged blob, without a look at the payload.
  ///
  /// - Returns: nil if there is no live record, or nothing was stored beside its payload.
  /// - Throws: `BlobStoreError`; `CancellationError` while it waits for a thread; `closed`.
  public func extendedData(for key: BlobKey) async throws -> Data? {
    let engine = try openEngine()
    return try await withSpan("extendedData", key) {
      try await engine.placeFetched(key)
      return try await engine.lanes.reads.run { _ in try engine.extendedData(for: key) }
    }
  }

  /// Replaces what lies beside a key's payload. The payload, the locks and the age of the record stay as they are.
  ///
  /// A blob staged for the key is written before. Memory forgets the blob.
  ///
  /// - Parameters:
  ///   - data: at most 4 KiB; nil or empty for nothing.
  ///   - key: the key of the record.
  /// - Returns: `done`; `notFound` if there is no live record.
  /// - Throws: as `extendedData(for:)`; `extendedDataTooLarge`; `extendedDataRefused` in a directory that
  ///   SPTPersistentCache may share; `writeFailed`.
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

// A string is a sequence, so that the compiler takes a string for the keys of a verb on many, and speaks of characters.
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
