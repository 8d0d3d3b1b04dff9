internal import Posix

/// The records that are next to go after those that a size pass removes.
///
/// They are known from its walk, so that a steady stream of stores does not walk the directory each time.
///
/// Later changes of a record are found out when it is removed. A record that was unlocked since the walk is not among
/// them, however old: the next walk finds it.
struct EvictionQueue {
  /// Some ten MiB of them.
  static let capacity = 65_536

  /// The latest place first, once sealed.
  private var candidates: [EvictionCandidate] = []

  private var bytes: Int64 = 0
  /// Whether a look ahead has found no more than these, so that another one would be in vain.
  var areAll = false

  var isEmpty: Bool { candidates.isEmpty }

  /// Whether they will not fill the recycling bin.
  func areFewer(thanFill batch: EvictionBatch) -> Bool {
    !areAll && batch.isLessThanBin(files: Int64(candidates.count), bytes: bytes)
  }

  mutating func add(_ candidate: EvictionCandidate) {
    guard candidates.count < Self.capacity else { return }
    candidates.append(candidate)
    bytes.saturatingAdd(candidate.size.bytes)
  }

  /// Puts them in order, and forgets all but so many.
  mutating func seal(keeping count: Int64) {
    candidates.sort { $0.place > $1.place }
    let surplus = candidates.prefix(max(0, candidates.count - Int(clamping: count)))
    bytes = surplus.reduce(bytes) { $0.saturatingSubtracting($1.size.bytes) }
    candidates.removeFirst(surplus.count)
  }

  /// Takes the record that is next to be evicted.
  mutating func next() -> EvictionCandidate? {
    let candidate = candidates.popLast()
    if let candidate { bytes.saturatingAdd(-candidate.size.bytes) }
    return candidate
  }
}

/// The most that a store's collection evicts at a time where files are recycled: so many bytes, or so many files.
///
/// It is a quarter of the recycling bin. A larger batch than the bin holds would unlink files that stores then have to
/// make anew. The fuller the bin is, the more often it has a file whose digest is below a record's (`DeadRecord`). But
/// each look ahead walks over the whole directory, and where that is very large, it costs more than it saves.
struct EvictionBatch {
  let bytes: Int64
  let files: Int64

  /// So many batches fill the recycling bin.
  static let perBin: Int64 = 4
  /// Of a directory with more records, no batches are evicted.
  static let mostRecords = Int64(EvictionQueue.capacity) * 8
  /// A thread for fewer records than these is not worth it.
  private static let leastFiles: Int64 = 8

  /// - Returns: nil where nothing is evicted by batches.
  init?(_ core: StoreCore, _ usage: BlobStore.UsageEstimate) {
    let configuration = core.configuration
    guard let bin = core.recyclingLimit, configuration.format == .checksummed,
      configuration.durability.level(concernsLock: false) == .none, usage.records <= Self.mostRecords
    else { return nil }
    func share(_ bound: Int64, ofWhatLies limit: Int64?, above target: Int64?) -> Int64 {
      min(bound / Self.perBin, limit.flatMap { limit in target.map { limit - $0 } } ?? .max)
    }
    bytes = share(bin.bytes, ofWhatLies: configuration.limits.size, above: configuration.sizeTarget)
    // A bin for most of a few records: then what is known to be next is remembered for too long.
    let files = configuration.limits.count.map { min(bin.files, $0 / 10) } ?? bin.files
    self.files = share(files, ofWhatLies: configuration.limits.count, above: configuration.countTarget)
  }

  func isReached(files evicted: Int64, bytes freed: Int64) -> Bool {
    evicted >= Self.leastFiles && (evicted >= files || freed >= bytes)
  }

  /// Whether that is less than fills the bin.
  func isLessThanBin(files count: Int64, bytes: Int64) -> Bool {
    count / Self.perBin < files && bytes / Self.perBin < self.bytes
  }
}

extension CollectionRun {
  /// Removes records that an earlier walk has found to be next, without a walk.
  ///
  /// It ends when by the counters the limits' targets are reached; or when the limits are kept and a batch is gone, where
  /// that is less.
  func evict(_ queue: inout EvictionQueue, limit: () -> StoreLimit) throws {
    let clock = CollectionClock(self, .eviction)
    try evictBatch(&queue, limit)
    clock.end()
  }

  private func evictBatch(_ queue: inout EvictionQueue, _ limit: () -> StoreLimit) throws {
    guard let control, let open = try core.root.opened() else { return }
    let configuration = core.configuration
    let volumeTarget = limit().volumeBytes.share(configuration.limits.evictionTarget)
    let target = (
      bytes: min(configuration.sizeTarget ?? .max, volumeTarget), records: configuration.countTarget ?? .max
    )
    let batch = control.counters.flatMap { EvictionBatch(core, $0) }
    let subdirectories = LastSubdirectory(open)
    while !tally.isStopped, let usage = control.counters {
      let inForce = limit()
      if inForce.isExceeded(by: usage) {
        tally.evictions.cause = inForce.cause(of: usage)
      } else {
        if usage.bytes <= target.bytes, usage.records <= target.records { break }
        if let batch, batch.isReached(files: report.evicted, bytes: report.bytesFreed) { break }
      }
      guard let candidate = queue.next() else { break }
      // A record that was used since it was met is left to the next walk.
      if sizes.order.wasUsed(candidate.path.digest, since: candidate.standing) { continue }
      sizes.evict(candidate, in: subdirectories)
    }
  }
}

extension StoreLimit {
  /// The cause of an eviction where the limit is exceeded: the first of several.
  fileprivate func cause(of usage: BlobStore.UsageEstimate) -> EvictionCause {
    if usage.bytes > volumeBytes, volumeBytes < bytes ?? .max { return .freeSpace }
    return usage.bytes > bytes ?? .max ? .sizeLimit : .countLimit
  }
}

extension BlobStore.Configuration {
  /// The bytes that an eviction leaves; nil without a limit.
  var sizeTarget: Int64? { limits.size?.share(limits.evictionTarget) }
  var countTarget: Int64? { limits.count?.share(limits.evictionTarget) }
}
