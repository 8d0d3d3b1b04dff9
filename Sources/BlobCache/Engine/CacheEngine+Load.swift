internal import BlobRecord
internal import BlobStore

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
