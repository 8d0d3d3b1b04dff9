internal import BlobRecord
internal import BlobStore
internal import Locks
internal import Logging
internal import MemoryCache
internal import SystemPackage

/// The blobs in memory.
///
/// A blob is returned only before its deadline, and only while its key's generation is the one from before the blob
/// was read from disk: Spec/Semantics.md, V.
final class MemoryTier: Sendable {
  let cache: MemoryCache<BlobKey, KeptBlob>
  let generations: Generations
  let touches: TouchBatch
  private let headers = HeaderChanges()
  /// The location of the generations of the last blob that was added.
  private let place = Lock<GenerationPlace?>(nil)
  private let store: BlobStore
  private let defaultExpiration: Int64
  private let now: @Sendable () -> UnixTime

  init(
    _ configuration: MemoryCacheConfiguration, of store: BlobStore, generations: Generations, touches: TouchBatch,
    onRemoval: @escaping @Sendable (RemovedEntry<BlobKey, KeptBlob>) -> Void
  ) {
    var configuration = configuration
    configuration.name = store.directory.string
    let logger = store.configuration.logger
    configuration.onPressureFailure = { source in
      logger.notice(
        "memory pressure is not watched: \(source.failure ?? source.path); `respondToMemoryPressure` gives memory back")
    }
    cache = MemoryCache(configuration, onRemoval: onRemoval)
    self.generations = generations
    self.touches = touches
    self.store = store
    defaultExpiration = store.effectiveDefaultExpiration
    now = store.configuration.now
  }

  enum Finding {
    case hit(KeptBlob)
    case absent
    case expired(KeptBlob)
    /// The record on disk may have changed.
    case outdated
  }

  @inline(__always)
  func find(_ key: BlobKey, touching: Bool) -> Finding {
    guard let cached = cache.value(forKey: key) else { return .absent }
    let entry = cached.entry
    let now = now()
    guard now <= deadline(of: entry) else { return findExpired(cached, of: key) }
    let hit = MemoryHit(byteCount: cached.payload.count, isUse: touching, at: now)
    guard entry.answersAtOnce(hit) || answers(hit, with: entry, of: key) else { return .outdated }
    if touching, entry.lacksUse(at: now.seconds) { note(entry, of: key, at: now.seconds) }
    return .hit(cached)
  }

  @inline(__always)
  private func deadline(of entry: MemoryEntry) -> UnixTime {
    entry.deadline(defaultExpiration: defaultExpiration)
  }

  private func findExpired(_ cached: KeptBlob, of key: BlobKey) -> Finding {
    defer { discard(cached.entry, of: key) }
    return generations.isInForce(cached.entry.stamp, of: cached.entry.digest, counting: nil)
      ? .expired(cached) : .outdated
  }

  /// Returns a Boolean value that indicates whether the entry is valid; otherwise removes it.
  private func answers(_ hit: MemoryHit, with entry: MemoryEntry, of key: BlobKey) -> Bool {
    if generations.isInForce(entry.stamp, of: entry.digest, counting: hit) { return true }
    discard(entry, of: key)
    return false
  }

  private func note(_ entry: MemoryEntry, of key: BlobKey, at now: Int64) {
    if entry.use(at: now) { touches.note(RecordTouch(key: key, entry: entry), at: now) }
  }

  func contains(_ key: BlobKey) -> Bool {
    guard let entry = cache.peek(key)?.entry, generations.stamp(of: entry.digest) == entry.stamp else { return false }
    return now() <= deadline(of: entry)
  }

  /// Returns a stamp, which must be taken before the read or write of a record that will be kept.
  func headerStamp(of digest: UInt64) -> HeaderChanges.Stamp { headers.stamp(of: digest) }

  /// Adds a blob of a generation, unless its header has changed since the stamp.
  ///
  /// - Parameter update: The update time on disk if it has changed since the header was read.
  @discardableResult
  func keep(
    _ blob: Blob, digest: UInt64, in stamp: GenerationStamp, since header: HeaderChanges.Stamp, update: UnixTime?
  ) -> MemoryEntry {
    let entry = MemoryEntry(blob, digest: digest, stamp: stamp, place: currentPlace())
    entry.settle(update)
    cache.setValue(KeptBlob(entry: entry, payload: blob.payload), forKey: blob.key, cost: Self.cost(of: blob))
    if headers.stamp(of: digest) != header { discard(entry, of: blob.key) }
    return entry
  }

  /// Returns the current location of the generations.
  ///
  /// If it differs from the location for the last blob, all blobs are outdated. They are removed, because each would
  /// keep the file of its generation open.
  private func currentPlace() -> GenerationPlace {
    let (current, isAnother) = place.withLock { place in
      let current = generations.place(after: place)
      defer { place = current }
      return (current, place.map { $0.isKnown && $0 !== current } ?? false)
    }
    if isAnother { cache.removeAll() }
    return current
  }

  /// Records a change of a header on disk, so that memory does not return old locks.
  func didChangeHeader(of key: BlobKey, digest: UInt64) {
    headers.note(digest)
    discard(key)
  }

  /// Records that the record of a key was touched on disk, at this time or later.
  func wasTouched(_ key: BlobKey, digest: UInt64, at time: UnixTime) {
    headers.note(digest)
    guard let entry = cache.peek(key)?.entry, entry.slides else { return }
    // The clock was set back, and with it the record's deadline.
    guard time.seconds >= entry.update else { return discard(entry, of: key) }
    entry.settle(time)
  }

  func discard(_ key: BlobKey) { cache.removeValue(forKey: key) }

  private func discard(_ entry: MemoryEntry, of key: BlobKey) {
    // Another thread may have added a newer entry.
    cache.removeValue(forKey: key) { $0.entry === entry }
  }

  /// Returns the memory that a blob takes. A blob with a key of 24 bytes was measured to take 360 bytes besides key and
  /// payload (Spec/Benchmarks.md, "Footprint").
  private static func cost(of blob: Blob) -> Int {
    blob.payload.count + blob.key.string.utf8.count + (blob.extendedData?.count ?? 0) + 360
  }
}

/// Counts changes of headers by this process's caches, because generations only cover payloads.
///
/// A reader adds a record and then checks for changes of the header. A change is counted before its caller checks for
/// entries in memory. So one of the two finds the other.
final class HeaderChanges: Sendable {
  struct Stamp: Equatable, Sendable {
    fileprivate let value: UInt32
  }

  private static let slotCount = 256
  private let counts = Lock([UInt32](repeating: 0, count: HeaderChanges.slotCount))

  func stamp(of digest: UInt64) -> Stamp { counts.withLock { Stamp(value: $0[Self.slot(digest)]) } }

  func note(_ digest: UInt64) { counts.withLock { $0[Self.slot(digest)] &+= 1 } }

  private static func slot(_ digest: UInt64) -> Int { Int(digest % UInt64(slotCount)) }
}
