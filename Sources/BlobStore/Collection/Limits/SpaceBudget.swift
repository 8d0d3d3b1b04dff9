internal import BlobRecord
internal import Posix
internal import Synchronization

/// The bytes that a volume can spare for a directory: all available ones except the free space floor.
struct SpaceBudget {
  private let total: Int64
  private let available: Int64
  private let floor: Int64

  /// System call: `fstatvfs(3)`. The default floor is a tenth of the volume, at most 4 GiB.
  init(of directory: borrowing Directory, floor: Int64?) throws(FileError) {
    (total, available) = try directory.volumeSpace()
    self.floor = floor ?? min(total / 10, 4 << 30)
  }

  /// Returns the size to which a directory may grow. The freed bytes count as removed although they still exist.
  func spares(forOneHolding bytes: Int64, freed: Int64 = 0) -> Int64 {
    max(0, available.saturatingAdding(freed).saturatingAdding(bytes).saturatingSubtracting(floor))
  }

  /// Returns whether a file may fit once some bytes are removed. A quota may still refuse it.
  func mayHold(_ byteCount: Int64, onceFreed bytes: Int64) -> Bool { available.saturatingAdding(bytes) >= byteCount }

  /// The bytes to store until the next check: a thousandth of the volume, which is a hundredth of the usual floor.
  var checkInterval: Int64 { min(max(total / 1024, 1 << 20), 64 << 20) }
}

/// The room that is required below a limit.
struct WantedRoom {
  /// The size of the largest record whose store waits for room, and fails without it.
  var waiting: Int64
  /// The bytes that writers have reserved for their commits.
  var reserved: Int64

  var bytes: Int64 { max(waiting, reserved) }
}

/// The disk space of a directory with packs, compared with the space that its size limit permits.
///
/// It is the sum of the chunks in use (by the chunk tables), the index and its checkpoint, and the records in files.
struct PackedMedium {
  /// Chunks that accept no more records.
  private var sealed: Int64 = 0
  /// Chunks that are being filled, chunks reserved for collections, and free chunks that still have disk blocks.
  private var others: Int64 = 0
  private var liveByteCount: Int64 = 0
  private let chunkByteCount: Int64
  private let indexByteCount: Int64
  private let limit: Int64
  private let usage: BlobStore.UsageEstimate

  /// The permitted chunks above 1.4 times the limit: chunks that are being filled, the spare, and free ones with disk
  /// blocks.
  private static let leastChunks: Int64 = 8

  /// Returns `nil` without a size limit or packs. It reads a cache line per chunk once the packs are open.
  init?(of core: StoreCore) throws {
    guard let limit = core.configuration.limits.size, let open = try core.root.opened(),
      let packs = try Records(core).packs(of: open), let usage = try core.usageEstimate()
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

  /// 1.4 times the limit, plus several chunks.
  private var permitted: Int64 {
    limit.saturatingAdding(limit / 5 * 2).saturatingAdding(Self.leastChunks * chunkByteCount)
  }

  private func byteCount(ofChunks count: Int64) -> Int64 {
    (count * chunkByteCount).saturatingAdding(indexByteCount).saturatingAdding(
      max(0, usage.bytes - liveByteCount))
  }

  var isTooMuch: Bool { byteCount(ofChunks: sealed + others) > permitted }

  /// The bytes of records at which the disk space would be permitted, or `nil` if it is permitted already. Chunks that
  /// eviction does not free are not counted.
  var recordByteCount: Int64? {
    let byteCount = byteCount(ofChunks: sealed)
    guard byteCount > permitted else { return nil }
    let bytes = Double(usage.bytes)
    // Fewer bytes than exist.
    return Int64(min(bytes * Double(permitted) / Double(byteCount), bytes.nextDown))
  }
}

/// A countdown of stored bytes until a store must repeat a check.
final class PeriodicCheck: Sendable {
  /// The bytes until the next check. The value is zero or less during a check.
  private let left: Atomic<Int64>

  init(after byteCount: Int64) { left = Atomic(byteCount) }

  /// Counts stored bytes. Returns `true` if the caller must make the check and `restart` the countdown.
  func isDue(after byteCount: Int64) -> Bool {
    let (before, after) = left.subtract(byteCount, ordering: .relaxed)
    return before > 0 && after <= 0
  }

  func restart(after byteCount: Int64) { left.store(byteCount, ordering: .relaxed) }
}
