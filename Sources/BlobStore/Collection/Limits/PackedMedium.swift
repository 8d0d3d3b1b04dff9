internal import BlobRecord

/// What a directory with packs takes on the medium, beside what its size limit permits.
///
/// Chunks count by their tables, the index and its checkpoint by their lengths, and records in files by their bytes.
struct PackedMedium {
  /// Chunks that take no more records.
  private var sealed: Int64 = 0
  /// Chunks that are being filled, those that collections keep, and free ones with blocks.
  private var others: Int64 = 0
  private var liveByteCount: Int64 = 0
  private let chunkByteCount: Int64
  private let indexByteCount: Int64
  private let limit: Int64
  private let usage: BlobStore.UsageEstimate

  /// All together may take so many chunks more than 1.4 times the limit: those that are being filled, the spare, and free ones
  /// with blocks.
  private static let leastChunks: Int64 = 8

  /// - Complexity: a cache line for each chunk, once the packs are open.
  init(of packs: PackRecords, limit: Int64, _ usage: BlobStore.UsageEstimate) throws {
    self.limit = limit
    self.usage = usage
    chunkByteCount = Int64(packs.packs.files.chunkByteCount)
    indexByteCount = Int64(IndexLayout.byteCount(ofBuckets: packs.packs.index.bucketCount)).saturatingAdding(
      try PackCheckpoint.byteCount(in: packs.packs.files.directory))
    for pack in try packs.packs.files.all() {
      for number in 0..<PackLayout.chunkCount {
        let entry = pack.entry(ofChunk: number)
        switch entry.state.kind {
        case .sealed: sealed += 1
        case .free: others += entry.hasBlocks ? 1 : 0
        default: others += 1
        }
        liveByteCount.saturatingAdd(Int64(max(0, entry.liveByteCount)))
      }
    }
  }

  /// 1.4 times the limit, and some chunks.
  private var permitted: Int64 {
    limit.saturatingAdding(limit / 5 * 2).saturatingAdding(Self.leastChunks * chunkByteCount)
  }

  private func byteCount(ofChunks count: Int64) -> Int64 {
    (count * chunkByteCount).saturatingAdding(indexByteCount).saturatingAdding(
      max(0, usage.bytes.saturatingSubtracting(liveByteCount)))
  }

  /// Whether there is more than the limit permits.
  var isTooMuch: Bool { byteCount(ofChunks: sealed + others) > permitted }

  /// How many bytes of records may be there so that what is on the medium is permitted; nil if it is.
  ///
  /// Chunks that no eviction makes free do not count.
  var recordByteCount: Int64? {
    let byteCount = byteCount(ofChunks: sealed)
    guard byteCount > permitted else { return nil }
    let bytes = Double(usage.bytes)
    // Fewer than there are, and a number that an integer can hold, whatever a damaged counter says.
    return Int64(min(bytes * Double(permitted) / Double(byteCount), bytes.nextDown))
  }
}

extension StoreCore {
  /// nil without a size limit, or without packs.
  func packedMedium() throws -> PackedMedium? {
    guard let limit = configuration.limits.size, let open = try root.opened(), let packs = try records.packs(of: open),
      let usage = try usageEstimate()
    else { return nil }
    return try PackedMedium(of: packs, limit: limit, usage)
  }
}
