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
