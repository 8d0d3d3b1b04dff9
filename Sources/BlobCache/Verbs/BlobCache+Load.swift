public import BlobRecord
public import BlobStore

extension BlobCache {
  /// The live blob stored under a key, from memory or from disk.
  ///
  /// Memory answers while no process has changed the record: at once, on the caller's thread. So does the disk, for a
  /// small blob whose file the kernel has in memory; else a thread of the cache reads it. A blob that was read from disk is
  /// kept in memory. The header that comes with a blob is the one it was read under: `header(for:)` tells of
  /// locks as they are.
  ///
  /// - Parameters:
  ///   - key: the blob's.
  ///   - touching: whether this is a use of the record, which for ttl 0 begins its time anew.
  /// - Returns: nil if there is no record, or it is expired and not locked.
  /// - Throws: `BlobStoreError`, as `BlobStore.load`; `CancellationError` if the task is cancelled while it waits for a
  ///   thread; `closed`.
  public func load(_ key: BlobKey, touching: Bool = true) async throws -> Blob? {
    if isClosed { _ = try openEngine() }
    guard !engine.hasStagedBlobs, !engine.revalidates else {
      return try await engine.loadPastStaged(key, touching: touching)
    }
    // The blob is made where the caller wants it: what lies between costs as much as the look.
    if let cached = engine.hitInMemory(key, touching: touching) { return cached.current }
    return try await engine.loadPastMemory(key, touching: touching)
  }

  /// The blobs of many keys, in their order.
  ///
  /// What is neither in memory nor, for some tens of keys, in the kernel's memory is read in one hop.
  public func load(_ keys: some Sequence<BlobKey>, touching: Bool = true) async throws -> [LoadResult] {
    let engine = try openEngine()
    var results: [LoadResult?] = []
    var missing: [(index: Int, key: BlobKey)] = []
    // A first look that would wait ends them: more of the kind are likely.
    var looksLeft = CacheEngine.longestRun
    for (index, key) in keys.enumerated() {
      if !engine.revalidates, let blob = engine.resident(key, touching: touching) {
        results.append(LoadResult(key: key, result: .success(blob)))
      } else if looksLeft > 0, engine.remote == nil, let found = engine.loadWithoutWaiting(key, touching: touching) {
        engine.observer.tell(found.event(for: key))
        results.append(LoadResult(key: key, result: .success(found.blob)))
        looksLeft -= 1
      } else {
        looksLeft = 0
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
    if looksLeft < CacheEngine.longestRun { await Task.yield() }
    return results.compactMap { $0 }
  }

  /// The blob of one of the live keys that begin with a prefix. Blobs that are staged are written first.
  ///
  /// - Parameters:
  ///   - prefix: what the keys begin with, byte for byte.
  ///   - touching: whether this is a use of the record that is chosen.
  ///   - choose: receives those keys, in no order, on a thread of the cache's. It is called only if there are any.
  /// - Returns: nil if there is no such key, if `choose` answers nil, or if the chosen one is gone by then.
  /// - Throws: as `load`; `writeFailed`.
  public func load(
    prefix: String, touching: Bool = true, choosing choose: @escaping @Sendable ([BlobKey]) -> BlobKey?
  ) async throws -> Blob? {
    let engine = try openEngine()
    return try await withSpan("loadPrefix", nil) {
      try await engine.lanes.scans.run { _ in try engine.load(prefix: prefix, touching: touching, choosing: choose) }
    }
  }

  /// The blob of a key if it is in memory and still what the disk holds, or if it is staged.
  ///
  /// It neither goes to disk nor waits, so it can be called where waiting is not allowed.
  ///
  /// - Complexity: O(1), without a system call, except for a few, once a second.
  public func cachedBlob(for key: BlobKey, touching: Bool = true) -> Blob? {
    isClosed ? nil : engine.resident(key, touching: touching)
  }

  /// Whether a load would find a record; it is not touched.
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

  /// The header of a key's live record on disk, or of its staged blob.
  ///
  /// A staged blob's is the header that it will have.
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

  /// The blob of a key: `load`.
  public subscript(key: BlobKey) -> Blob? {
    get async throws { try await load(key) }
  }
}

/// The outcome of a load of one key among several.
public struct LoadResult: Sendable {
  public let key: BlobKey
  /// nil if there is no live record. The error is a `BlobStoreError`.
  public let result: Result<Blob?, any Error>
}

extension CacheEngine {
  /// Loads a blob while some are staged, or where the remote tier's word about it ages.
  fileprivate func loadPastStaged(_ key: BlobKey, touching: Bool) async throws -> Blob? {
    if revalidates { return try await withSpan("load", key) { try await loadRevalidated(key, touching: touching) } }
    if let blob = resident(key, touching: touching) { return blob }
    return try await loadPastMemory(key, touching: touching)
  }

  /// Loads a blob that memory does not have.
  fileprivate func loadPastMemory(_ key: BlobKey, touching: Bool) async throws -> Blob? {
    try await withSpan("load", key) {
      guard let found = loadWithoutWaiting(key, touching: touching) else {
        if remote != nil { return try await loadByLane(key, touching: touching) }
        return try await lanes.reads.run { try self.loadMissing(key, touching: touching, queueTime: $0) }
      }
      // A hit costs the same with a remote tier and without.
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
