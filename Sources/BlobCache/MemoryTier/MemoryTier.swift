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
  let cache: MemoryCache<BlobKey, MemoryEntry>
  let generations: Generations
  let touches: TouchBatch
  private let headers = HeaderChanges()
  /// The location of the generations of the last blob that was added.
  private let place = Lock<GenerationPlace?>(nil)
  private let store: BlobStore
  private let now: @Sendable () -> UnixTime

  init(
    _ configuration: MemoryCacheConfiguration, of store: BlobStore, generations: Generations, touches: TouchBatch,
    onRemoval: @escaping @Sendable (RemovedEntry<BlobKey, MemoryEntry>) -> Void
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
    now = store.configuration.now
  }

  enum Finding {
    case hit(MemoryEntry)
    case absent
    case expired(MemoryEntry)
    /// The record on disk may have changed.
    case outdated
  }

  @inline(__always)
  func find(_ key: BlobKey, touching: Bool) -> Finding {
    guard let cached = cache.value(forKey: key) else { return .absent }
    let now = now()
    let moment = touches.moment(at: now)
    let isNoted = cached.isNoted(in: moment)
    if !isNoted { cached.checkUse() }
    guard now <= cached.deadline else { return findExpired(cached) }
    let hit = MemoryHit(byteCount: Int(cached.blob.header.payloadSize), isUse: touching, at: now)
    guard cached.answersAtOnce(hit) || answers(hit, with: cached) else { return .outdated }
    if touching, !isNoted { note(cached, in: moment, at: now) }
    return .hit(cached)
  }

  private func findExpired(_ cached: MemoryEntry) -> Finding {
    defer { discard(cached) }
    return generations.isInForce(cached.stamp, of: cached.digest, counting: nil) ? .expired(cached) : .outdated
  }

  /// Returns a Boolean value that indicates whether the entry is valid; otherwise removes it.
  private func answers(_ hit: MemoryHit, with cached: MemoryEntry) -> Bool {
    if generations.isInForce(cached.stamp, of: cached.digest, counting: hit) { return true }
    discard(cached)
    return false
  }

  private func note(_ cached: MemoryEntry, in moment: UseMoment, at now: UnixTime) {
    if cached.use.use(at: now.seconds) { touches.note(cached.use, at: now.seconds) }
    // The moment is recorded last, because a thread that finds it recorded does not record its own use.
    cached.note(moment)
  }

  func contains(_ key: BlobKey) -> Bool {
    guard let cached = cache.peek(key), generations.stamp(of: cached.digest) == cached.stamp else { return false }
    return now() <= cached.use.deadline
  }

  /// Returns a stamp, which must be taken before the read or write of a record that will be kept.
  func headerStamp(of digest: UInt64) -> HeaderChanges.Stamp { headers.stamp(of: digest) }

  /// Adds a blob of a generation, unless its header has changed since the stamp.
  ///
  /// - Parameter update: The update time on disk if it has changed since the header was read.
  @discardableResult
  func keep(
    _ blob: Blob, digest: UInt64, in stamp: GenerationStamp, since header: HeaderChanges.Stamp, update: UnixTime?
  ) -> RecordUse {
    let expiry = store.expiry(of: blob.header).seconds
    let lifetime = expiry.subtractingReportingOverflow(blob.header.lastUpdate.seconds)
    let use = RecordUse(
      header: blob.header, key: blob.key, lifetime: lifetime.overflow ? .max : lifetime.partialValue)
    use.settle(update)
    let cached = MemoryEntry(
      blob: blob, digest: digest, stamp: stamp, place: currentPlace(), use: use)
    cache.setValue(cached, forKey: blob.key, cost: Self.cost(of: blob))
    if headers.stamp(of: digest) != header { discard(cached) }
    return use
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
    guard let cached = cache.peek(key), cached.use.slides else { return }
    // The clock was set back, and with it the record's deadline.
    guard time.seconds >= cached.use.update else { return discard(cached) }
    cached.use.settle(time)
    touches.didSettle()
  }

  func discard(_ key: BlobKey) { cache.removeValue(forKey: key) }

  private func discard(_ cached: MemoryEntry) {
    // Another thread may have added a newer entry.
    cache.removeValue(forKey: cached.blob.key) { $0 === cached }
  }

  /// Returns the memory that a blob takes, including about 350 bytes for two objects, the header, the storage of
  /// `Data`, the cache's slot and the allocator's share.
  private static func cost(of blob: Blob) -> Int {
    blob.payload.count + blob.key.string.utf8.count + (blob.extendedData?.count ?? 0) + 350
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
