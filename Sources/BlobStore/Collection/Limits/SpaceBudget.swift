internal import BlobRecord
internal import Posix

/// The bytes that a volume can spare for a directory: all but the free space floor.
struct SpaceBudget {
  private let total: Int64
  private let available: Int64
  private let floor: Int64

  /// System call: `fstatvfs(3)`.
  ///
  /// - Parameter floor: The bytes to leave free. Default: a tenth of the volume, 4 GiB at most.
  init(of directory: borrowing Directory, floor: Int64?) throws(FileError) {
    (total, available) = try directory.volumeSpace()
    self.floor = floor ?? min(total / 10, 4 << 30)
  }

  /// Returns the size to which a directory may grow, given its current size.
  ///
  /// - Parameter freed: The bytes that count as removed although they are still there.
  func spares(forOneHolding bytes: Int64, freed: Int64 = 0) -> Int64 {
    max(0, available.saturatingAdding(freed).saturatingAdding(bytes).saturatingSubtracting(floor))
  }

  /// Returns whether a file may find room once some bytes are removed. A quota may refuse it all the same.
  func mayHold(_ byteCount: Int64, onceFreed bytes: Int64) -> Bool { available.saturatingAdding(bytes) >= byteCount }

  /// The bytes to store until the next check: a thousandth of the volume, which is a hundredth of the usual floor.
  var checkInterval: Int64 { min(max(total / 1024, 1 << 20), 64 << 20) }
}

/// The bytes that are wanted below a limit.
struct WantedRoom {
  /// The size of the largest record that waits for room, whose store is refused without it.
  var waiting: Int64
  /// The bytes that writers have reserved, which are refused nothing before their commits.
  var reserved: Int64

  /// The bytes that a collection leaves free.
  var bytes: Int64 { max(waiting, reserved) }
}

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

  /// - Returns: nil without a size limit, or without packs.
  /// - Complexity: a cache line for each chunk, once the packs are open.
  init?(of core: StoreCore) throws {
    guard let limit = core.configuration.limits.size, let open = try core.root.opened(),
      let packs = try core.records.packs(of: open), let usage = try core.usageEstimate()
    else { return nil }
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
