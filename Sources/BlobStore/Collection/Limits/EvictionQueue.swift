internal import Posix

/// The records that are next in the order of eviction, after the ones that a size pass removes.
///
/// The walk of the pass finds them, so that a steady stream of stores does not walk the directory each time. Changes
/// of a record are detected at its removal. A record that was unlocked after the walk is missing until the next walk.
struct EvictionQueue {
  /// The capacity, which takes about ten MiB.
  static let capacity = 65_536

  /// In descending order of their places, once sealed.
  private var candidates: [EvictionCandidate] = []

  private var bytes: Int64 = 0
  /// A Boolean value that indicates whether a walk ahead has found no further records.
  var areAll = false

  var isEmpty: Bool { candidates.isEmpty }

  func areFewer(thanFill batch: EvictionBatch) -> Bool {
    !areAll && batch.isLessThanBin(files: Int64(candidates.count), bytes: bytes)
  }

  mutating func add(_ candidate: EvictionCandidate) {
    guard candidates.count < Self.capacity else { return }
    candidates.append(candidate)
    bytes.saturatingAdd(candidate.size.bytes)
  }

  /// Sorts the queue and removes all but the first `count` records.
  mutating func seal(keeping count: Int64) {
    candidates.sort { $0.place > $1.place }
    let surplus = candidates.prefix(max(0, candidates.count - Int(clamping: count)))
    bytes = surplus.reduce(bytes) { $0.saturatingSubtracting($1.size.bytes) }
    candidates.removeFirst(surplus.count)
  }

  mutating func next() -> EvictionCandidate? {
    let candidate = candidates.popLast()
    if let candidate { bytes.saturatingAdd(-candidate.size.bytes) }
    return candidate
  }
}

/// The maximum bytes and files that a store's collection evicts at a time if files are recycled.
///
/// A batch is a quarter of the recycling bin. If it exceeded the bin, it would unlink files that stores must then
/// create again. The fuller the bin is, the more often it has a file whose digest is below a record's (`DeadRecord`).
/// However, each walk ahead covers the whole directory and, in a very large directory, costs more than it saves.
struct EvictionBatch {
  let bytes: Int64
  let files: Int64

  /// The number of batches that fill the recycling bin.
  static let perBin: Int64 = 4
  /// The maximum number of records of a directory whose records are evicted in batches.
  static let mostRecords = Int64(EvictionQueue.capacity) * 8
  /// The minimum number of files of a batch, below which starting a thread is not worthwhile.
  private static let leastFiles: Int64 = 8

  /// Returns `nil` if records are not evicted in batches.
  init?(_ core: StoreCore, _ usage: BlobStore.UsageEstimate) {
    let configuration = core.configuration
    guard let bin = core.recyclingLimit, configuration.format == .checksummed,
      configuration.durability.level(concernsLock: false) == .none, usage.records <= Self.mostRecords
    else { return nil }
    func share(_ bound: Int64, ofWhatLies limit: Int64?, above target: Int64?) -> Int64 {
      min(bound / Self.perBin, limit.flatMap { limit in target.map { limit - $0 } } ?? .max)
    }
    bytes = share(bin.bytes, ofWhatLies: configuration.limits.size, above: configuration.sizeTarget)
    // If the bin could contain most records of a small directory, the queue would become outdated.
    let files = configuration.limits.count.map { min(bin.files, $0 / 10) } ?? bin.files
    self.files = share(files, ofWhatLies: configuration.limits.count, above: configuration.countTarget)
  }

  func isReached(files evicted: Int64, bytes freed: Int64) -> Bool {
    evicted >= Self.leastFiles && (evicted >= files || freed >= bytes)
  }

  func isLessThanBin(files count: Int64, bytes: Int64) -> Bool {
    count / Self.perBin < files && bytes / Self.perBin < self.bytes
  }
}

extension CollectionRun {
  /// Evicts records of the queue without a walk. It ends when the counters reach the targets of the limits or, if that
  /// is earlier, when the limits are satisfied and a batch is evicted.
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
      // A record that was used after the walk is left to the next walk.
      if sizes.order.wasUsed(candidate.path.digest, since: candidate.standing) { continue }
      sizes.evict(candidate, in: subdirectories)
    }
  }
}

extension StoreLimit {
  /// Returns the cause of an eviction if the limit is exceeded; of several causes, the first one.
  fileprivate func cause(of usage: BlobStore.UsageEstimate) -> EvictionCause {
    if usage.bytes > volumeBytes, volumeBytes < bytes ?? .max { return .freeSpace }
    return usage.bytes > bytes ?? .max ? .sizeLimit : .countLimit
  }
}

extension BlobStore.Configuration {
  /// The bytes that remain after an eviction, or `nil` without a limit.
  var sizeTarget: Int64? { limits.size?.share(limits.evictionTarget) }
  var countTarget: Int64? { limits.count?.share(limits.evictionTarget) }
}
