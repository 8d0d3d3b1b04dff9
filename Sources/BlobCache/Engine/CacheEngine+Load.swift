internal import BlobRecord
internal import BlobStore
internal import Synchronization

extension CacheEngine {
  /// Returns the blob of a key from staging or memory, without accessing the disk.
  func resident(_ key: BlobKey, touching: Bool) -> Blob? {
    if let blob = staging?.blob(for: key) {
      observer.tell(CacheEvent(.hit(.staged), key, byteCount: blob.payload.count))
      return blob
    }
    return hitInMemory(key, touching: touching)?.current(key)
  }

  /// Looks up a blob in staging and memory without reporting a hit.
  func findResident(_ key: BlobKey, touching: Bool) -> LookupResult? {
    if let blob = staging?.blob(for: key) { return LookupResult(blob: blob, tier: .staged) }
    return findInMemory(key, touching: touching).map { LookupResult(blob: $0.current(key), tier: .memory) }
  }

  var hasStagedBlobs: Bool { staging?.isEmpty == false }

  /// Returns the valid entry of a key in memory: the result of `resident` if nothing is staged.
  func hitInMemory(_ key: BlobKey, touching: Bool) -> KeptBlob? {
    guard let cached = findInMemory(key, touching: touching) else { return nil }
    observer.tell(CacheEvent(.hit(.memory), key, byteCount: cached.payload.count))
    return cached
  }

  @inline(__always)
  private func findInMemory(_ key: BlobKey, touching: Bool) -> KeptBlob? {
    switch memory?.find(key, touching: touching) {
    case .hit(let cached):
      return cached
    case .expired(let cached):
      observer.tell(CacheEvent(.expired(.memory), key, byteCount: cached.payload.count))
      return nil
    case .absent, .outdated, nil:
      return nil
    }
  }

  /// Returns the blob of a key that was not resident when the lookup was queued. Blocks.
  func loadMissing(_ key: BlobKey, touching: Bool, queueTime: Duration) throws -> Blob? {
    let found = try findMissing(key, touching: touching, queueTime: queueTime)
    observer.tell(found.event(for: key))
    return found.blob
  }

  /// Looks up a blob on disk without reporting a hit or a miss. Blocks.
  func findMissing(_ key: BlobKey, touching: Bool, queueTime: Duration) throws -> LookupResult {
    // `residentContains` counts no miss: the lookup before the queue has already counted the miss in memory.
    if residentContains(key), let found = findResident(key, touching: touching) { return found }
    return try findOnDisk(key, touching: touching, queueTime: queueTime)
  }

  /// Reads a blob from disk, and keeps it in memory. Blocks.
  func read(_ key: BlobKey, touching: Bool, queueTime: Duration = .zero) throws -> Blob? {
    let found = try findOnDisk(key, touching: touching, queueTime: queueTime)
    observer.tell(found.event(for: key))
    return found.blob
  }

  private func findOnDisk(_ key: BlobKey, touching: Bool, queueTime: Duration) throws -> LookupResult {
    let stopwatch = observer.stopwatch()
    do {
      let blob = try readAndKeep(key, touching: touching)
      return LookupResult(blob: blob, duration: stopwatch.elapsed, queueTime: queueTime)
    } catch let error as BlobStoreError where error.code == .damaged {
      observer.tell(CacheEvent(.damaged(error), key, duration: stopwatch.elapsed, queueTime: queueTime))
      throw error
    }
  }

  private func readAndKeep(_ key: BlobKey, touching: Bool) throws -> Blob? {
    guard let memory else { return try store.load(key, touching: touching) }
    let path = try store.path(of: key, for: "load")
    // The stamp is taken before the disk is read, so that any later change makes the blob outdated.
    let stamp = generations.stamp(of: path.digest)
    let header = memory.headerStamp(of: path.digest)
    var receipt = LoadReceipt()
    guard let blob = try store.load(key, at: path, touching: touching, &receipt) else { return nil }
    if let stamp { memory.keep(blob, digest: path.digest, in: stamp, since: header, update: receipt.update) }
    return blob
  }

  /// Returns the blob of the key chosen from the live keys with a prefix. Blocks.
  func load(prefix: String, touching: Bool, choosing choose: ([BlobKey]) -> BlobKey?) throws -> Blob? {
    try flushStaged()
    var chosen: BlobKey?
    let found: Blob?
    do {
      found = try store.load(prefix: prefix, touching: touching) { keys in
        chosen = choose(keys)
        return chosen
      }
    } catch {
      if error.code == .damaged { observer.tell(CacheEvent(.damaged(error), chosen)) }
      throw error
    }
    observer.tell(CacheEvent(found == nil ? .miss : .hit(.disk), chosen, byteCount: found?.payload.count ?? 0))
    return found
  }

  func contains(_ key: BlobKey) throws -> Bool {
    if residentContains(key) { return true }
    return try store.contains(key)
  }

  func residentContains(_ key: BlobKey) -> Bool {
    staging?.blob(for: key) != nil || memory?.contains(key) ?? false
  }

  /// Returns the header of a key's record on disk, or the future header of its staged blob. Blocks.
  func header(for key: BlobKey) throws -> RecordHeader? {
    if let staged = staging?.blob(for: key) { return staged.header }
    return try store.header(for: key)
  }

  func extendedData(for key: BlobKey) throws -> Data? {
    if let staged = staging?.blob(for: key) { return staged.extendedData }
    return try store.extendedData(for: key)
  }
}

/// Non-blocking lookups on disk, which run on the caller's thread before a lane is used.
extension CacheEngine {
  /// Looks up a blob on disk without blocking or reporting, or returns `nil` if a lane has to perform the lookup.
  ///
  /// The caller calls `giveWay` afterwards. With `tellsAbsence`, a missing record is a valid result.
  func loadWithoutWaiting(_ key: BlobKey, touching: Bool, tellsAbsence: Bool = true) -> LookupResult? {
    // An invalid key is reported by the blocking lookup, which follows.
    guard lanes.areReady, !touching || touches.hasRoom, let path = try? store.path(of: key, for: "load") else {
      return nil
    }
    let stopwatch = observer.stopwatch()
    let header = memory?.headerStamp(of: path.digest)
    var receipt = LoadReceipt()
    let answer = store.loadIfCached(key, at: path, touching: touching, tellsAbsence: tellsAbsence, &receipt)
    guard case .known(let blob) = answer else { return nil }
    if let blob { keep(blob, digest: path.digest, receipt, since: header) }
    return LookupResult(blob: blob, duration: stopwatch.elapsed)
  }

  private func keep(_ blob: Blob, digest: UInt64, _ receipt: LoadReceipt, since header: HeaderChanges.Stamp?) {
    var entry: MemoryEntry?
    if let memory, let header, let stamp = GenerationStamp(receipt) {
      entry = memory.keep(blob, digest: digest, in: stamp, since: header, update: nil)
    }
    guard let time = receipt.owedTouch else { return }
    let touched = entry ?? MemoryEntry(blob, digest: digest, stamp: .none, place: nil)
    touches.write(RecordTouch(key: blob.key, entry: touched), at: time)
  }

  func headerWithoutWaiting(for key: BlobKey) -> CachedAnswer<RecordHeader> {
    lanes.areReady ? store.headerIfCached(for: key) : .unknown
  }

  /// Yields after each run of lookups on the caller's thread, so that a task that only loads does not keep the thread
  /// for more than 32 of them, some hundred microseconds with small blobs.
  func giveWay() async {
    let count = cachedLookupCount.wrappingAdd(1, ordering: .relaxed).newValue
    if count.isMultiple(of: UInt32(Self.longestRun)) { await Task.yield() }
  }

  /// The maximum number of consecutive lookups on the caller's thread.
  static var longestRun: Int { 32 }
}

struct LookupResult: Sendable {
  var blob: Blob?
  var tier = CacheEvent.Tier.disk
  var duration = Duration.zero
  var queueTime = Duration.zero

  func event(for key: BlobKey) -> CacheEvent {
    guard let blob else { return miss(for: key) }
    return CacheEvent(
      .hit(tier), key, byteCount: blob.payload.count, duration: duration, queueTime: queueTime)
  }

  /// Returns the event of a miss, even if the blob exists but is not usable.
  func miss(for key: BlobKey) -> CacheEvent { CacheEvent(.miss, key, duration: duration, queueTime: queueTime) }
}
