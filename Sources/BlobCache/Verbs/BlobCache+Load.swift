public import BlobRecord
public import BlobStore

extension BlobCache {
  /// Returns the live blob for a key from memory or from disk.
  ///
  /// A blob in memory is returned immediately on the caller's thread, unless a process has changed the record. So is a
  /// small blob on disk whose file is in the page cache; otherwise a thread of the cache reads it. A blob read from
  /// disk is kept in memory. The blob's header is the one with which it was read; `header(for:)` returns current locks.
  ///
  /// - Parameters:
  ///   - key: The key of the blob.
  ///   - touching: A Boolean value that indicates whether the load is a use, which extends the life if ttl is 0.
  /// - Returns: The blob, or `nil` if no record exists, or the record is expired and not locked.
  /// - Throws: `CancellationError` while it waits for a thread, `closed`, and the errors of `BlobStore.load`.
  public func load(_ key: BlobKey, touching: Bool = true) async throws -> Blob? {
    if isClosed { _ = try openEngine() }
    guard !engine.hasStagedBlobs, !engine.revalidates else {
      return try await engine.loadPastStaged(key, touching: touching)
    }
    // The blob is created here, because passing it through other functions costs as much as the lookup.
    if let cached = engine.hitInMemory(key, touching: touching) { return cached.current(key) }
    return try await engine.loadPastMemory(key, touching: touching)
  }

  /// Returns the blobs of many keys, in the order of the keys.
  ///
  /// Blobs that are neither in memory nor, for some tens of keys, in the page cache are read in one call on a thread.
  public func load(_ keys: some Sequence<BlobKey>, touching: Bool = true) async throws -> [LoadResult] {
    let engine = try openEngine()
    var results: [LoadResult?] = []
    var missing: [(index: Int, key: BlobKey)] = []
    // The first lookup that would block ends these lookups, because the next ones would probably block too.
    var lookupsLeft = CacheEngine.longestRun
    for (index, key) in keys.enumerated() {
      if !engine.revalidates, let blob = engine.resident(key, touching: touching) {
        results.append(LoadResult(key: key, result: .success(blob)))
      } else if lookupsLeft > 0, engine.remote == nil, let found = engine.loadWithoutWaiting(key, touching: touching) {
        engine.observer.tell(found.event(for: key))
        results.append(LoadResult(key: key, result: .success(found.blob)))
        lookupsLeft -= 1
      } else {
        lookupsLeft = 0
        results.append(nil)
        missing.append((index, key))
      }
    }
    if engine.remote != nil {
      for (index, result) in try await engine.loadWithRemote(missing, touching: touching) { results[index] = result }
    } else if !missing.isEmpty {
      let read = try await withSpan("load", nil) { [missing] in
        try await engine.lanes.reads.run { queueTime in
          missing.map { engine.loadResult(of: $0.key, touching: touching, queueTime: queueTime) }
        }
      }
      for ((index, _), result) in zip(missing, read) { results[index] = result }
    }
    if lookupsLeft < CacheEngine.longestRun { await Task.yield() }
    return results.compactMap { $0 }
  }

  /// Returns the blob of one of the live keys with a prefix, after staged blobs are written.
  ///
  /// - Parameters:
  ///   - prefix: The prefix of the keys, compared byte for byte.
  ///   - touching: A Boolean value that indicates whether the load counts as a use of the chosen record.
  ///   - choose: Receives the keys, if any, in no particular order, on a thread of the cache.
  /// - Returns: The blob, or `nil` if `choose` returns `nil`, or the key does not exist or was just removed.
  /// - Throws: `writeFailed`, and the errors of `load`.
  public func load(
    prefix: String, touching: Bool = true, choosing choose: @escaping @Sendable ([BlobKey]) -> BlobKey?
  ) async throws -> Blob? {
    let engine = try openEngine()
    return try await withSpan("loadPrefix", nil) {
      try await engine.lanes.scans.run { _ in try engine.load(prefix: prefix, touching: touching, choosing: choose) }
    }
  }

  /// Returns the blob of a key if it is valid in memory or staged.
  ///
  /// The method never accesses the disk or waits, so it can be called from code that must not block.
  ///
  /// - Complexity: O(1), without system calls, except for a few once a second.
  public func blobInMemory(for key: BlobKey, touching: Bool = true) -> Blob? {
    isClosed ? nil : engine.resident(key, touching: touching)
  }

  /// Returns a Boolean value that indicates whether a load would find a record, without touching it.
  public func contains(_ key: BlobKey) async throws -> Bool {
    let engine = try openEngine()
    if engine.residentContains(key) { return true }
    try await engine.placeFetched(key)
    if case .known(let header) = engine.headerWithoutWaiting(for: key) {
      await engine.giveWay()
      return header != nil
    }
    return try await engine.lanes.reads.run { _ in try engine.contains(key) }
  }

  /// Returns the header of a key's live record on disk, or the future header of its staged blob.
  public func header(for key: BlobKey) async throws -> RecordHeader? {
    let engine = try openEngine()
    if let staged = engine.staging?.blob(for: key) { return staged.header }
    try await engine.placeFetched(key)
    if case .known(let header) = engine.headerWithoutWaiting(for: key) {
      await engine.giveWay()
      return header
    }
    return try await engine.lanes.reads.run { _ in try engine.header(for: key) }
  }

  /// The blob of a key, as returned by `load`.
  public subscript(key: BlobKey) -> Blob? {
    get async throws { try await load(key) }
  }
}

/// The result of loading one of several keys.
public struct LoadResult: Sendable {
  public let key: BlobKey
  /// The blob, `nil` if no live record exists, or a `BlobStoreError`.
  public let result: Result<Blob?, any Error>
}

extension CacheEngine {
  /// Loads a blob while blobs are staged, or if local blobs are revalidated with the remote tier.
  fileprivate func loadPastStaged(_ key: BlobKey, touching: Bool) async throws -> Blob? {
    if revalidates { return try await withSpan("load", key) { try await loadRevalidated(key, touching: touching) } }
    if let blob = resident(key, touching: touching) { return blob }
    return try await loadPastMemory(key, touching: touching)
  }

  fileprivate func loadPastMemory(_ key: BlobKey, touching: Bool) async throws -> Blob? {
    try await withSpan("load", key) {
      guard let found = loadWithoutWaiting(key, touching: touching) else {
        if remote != nil { return try await loadByLane(key, touching: touching) }
        return try await lanes.reads.run { try self.loadMissing(key, touching: touching, queueTime: $0) }
      }
      // On a miss, the remote tier is asked; a hit does not depend on it.
      if found.blob == nil, remote != nil {
        await giveWay()
        return try await load(key, after: found)
      }
      observer.tell(found.event(for: key))
      await giveWay()
      return found.blob
    }
  }

  func loadResult(of key: BlobKey, touching: Bool, queueTime: Duration) -> LoadResult {
    LoadResult(key: key, result: Result { try loadMissing(key, touching: touching, queueTime: queueTime) })
  }
}
