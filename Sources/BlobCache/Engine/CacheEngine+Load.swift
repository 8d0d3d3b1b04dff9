internal import BlobRecord
internal import BlobStore
internal import Synchronization

extension CacheEngine {
  /// The blob of a key, if it can be had without the disk.
  func resident(_ key: BlobKey, touching: Bool) -> Blob? {
    if let blob = staging?.blob(for: key) {
      observer.tell(CacheEvent(.hit(.staged), key, byteCount: blob.payload.count))
      return blob
    }
    return hitInMemory(key, touching: touching)?.current
  }

  /// Finds a blob in memory, without telling of a hit.
  func findResident(_ key: BlobKey, touching: Bool) -> LookupResult? {
    if let blob = staging?.blob(for: key) { return LookupResult(blob: blob, tier: .staged) }
    return findInMemory(key, touching: touching).map { LookupResult(blob: $0.current, tier: .memory) }
  }

  /// Whether loads have to look for staged blobs first.
  var hasStagedBlobs: Bool { staging?.isEmpty == false }

  /// The entry of a key in memory, if that may answer: what `resident` answers where nothing is staged.
  func hitInMemory(_ key: BlobKey, touching: Bool) -> MemoryEntry? {
    guard let cached = findInMemory(key, touching: touching) else { return nil }
    observer.tell(CacheEvent(.hit(.memory), key, byteCount: cached.blob.payload.count))
    return cached
  }

  @inline(__always)
  private func findInMemory(_ key: BlobKey, touching: Bool) -> MemoryEntry? {
    switch memory?.find(key, touching: touching) {
    case .hit(let cached):
      return cached
    case .expired(let cached):
      observer.tell(CacheEvent(.expired(.memory), key, byteCount: cached.blob.payload.count))
      return nil
    case .absent, .outdated, nil:
      return nil
    }
  }

  /// The blob of a key that was not resident before this had its turn. Blocks.
  func loadMissing(_ key: BlobKey, touching: Bool, queueTime: Duration) throws -> Blob? {
    let found = try findMissing(key, touching: touching, queueTime: queueTime)
    observer.tell(found.event(for: key))
    return found.blob
  }

  /// Finds a blob on disk, without telling of a hit or a miss. Blocks.
  func findMissing(_ key: BlobKey, touching: Bool, queueTime: Duration) throws -> LookupResult {
    // It was a miss in memory already, and is not to be counted as another one.
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
    // Before the disk is read: what changes afterwards makes the blob outdated.
    let stamp = generations.stamp(of: path.digest)
    let header = memory.headerStamp(of: path.digest)
    var receipt = LoadReceipt()
    guard let blob = try store.load(key, at: path, touching: touching, &receipt) else { return nil }
    if let stamp { memory.keep(blob, digest: path.digest, in: stamp, since: header, update: receipt.update) }
    return blob
  }

  /// The blob that a chooser takes from among the live keys with a prefix. Blocks.
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

  /// Whether a load would find something. Blocks, unless memory knows.
  func contains(_ key: BlobKey) throws -> Bool {
    if residentContains(key) { return true }
    return try store.contains(key)
  }

  /// Whether it is known without the disk that a load would find something.
  func residentContains(_ key: BlobKey) -> Bool {
    staging?.blob(for: key) != nil || memory?.contains(key) ?? false
  }

  /// The header of a key's record on disk, or of its staged blob. Blocks.
  ///
  /// A staged blob's is the header that it will have.
  func header(for key: BlobKey) throws -> RecordHeader? {
    if let staged = staging?.blob(for: key) { return staged.header }
    return try store.header(for: key)
  }

  /// What lies beside a key's payload on disk, or beside its staged blob. Blocks.
  func extendedData(for key: BlobKey) throws -> Data? {
    if let staged = staging?.blob(for: key) { return staged.extendedData }
    return try store.extendedData(for: key)
  }
}

/// Looks on disk that never wait: they are made where the caller is, before a lane is asked.
extension CacheEngine {
  /// Finds a blob on disk, without telling of a hit or a miss; never waits.
  ///
  /// The caller gives way afterwards.
  ///
  /// - Parameter tellsAbsence: whether a missing record is an answer.
  /// - Returns: nil if a lane has to look.
  func loadWithoutWaiting(_ key: BlobKey, touching: Bool, tellsAbsence: Bool = true) -> LookupResult? {
    // Nothing is lost with the error of an invalid key: the ordinary look, which follows, reports it.
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
    var use: RecordUse?
    if let memory, let header, let stamp = GenerationStamp(receipt) {
      use = memory.keep(blob, digest: digest, in: stamp, since: header, update: nil)
    }
    guard let time = receipt.owedTouch else { return }
    touches.write(use ?? RecordUse(header: blob.header, key: blob.key, lifetime: 0), at: time)
  }

  /// The header of a key's record on disk; never waits.
  func headerWithoutWaiting(for key: BlobKey) -> CachedAnswer<RecordHeader> {
    lanes.areReady ? store.headerIfCached(for: key) : .unknown
  }

  /// Lets other tasks run, after each run of looks that were made where the caller is.
  ///
  /// A task that does nothing but load, alone, keeps its executor's thread for 32 looks at most. With small blobs, that is
  /// some hundred microseconds.
  func giveWay() async {
    let count = cachedLookCount.wrappingAdd(1, ordering: .relaxed).newValue
    if count.isMultiple(of: UInt32(Self.longestRun)) { await Task.yield() }
  }

  /// Looks that are made where the caller is, one after another.
  static var longestRun: Int { 32 }
}

/// The outcome of a look for a blob, and its cost.
struct LookupResult: Sendable {
  /// nil if there was none that is live.
  var blob: Blob?
  var tier = CacheEvent.Tier.disk
  var duration = Duration.zero
  var queueTime = Duration.zero

  /// A hit or a miss.
  func event(for key: BlobKey) -> CacheEvent {
    guard let blob else { return miss(for: key) }
    return CacheEvent(
      .hit(tier), key, byteCount: blob.payload.count, duration: duration, queueTime: queueTime)
  }

  /// A miss, though a blob may have been found: one that will not do.
  func miss(for key: BlobKey) -> CacheEvent { CacheEvent(.miss, key, duration: duration, queueTime: queueTime) }
}
