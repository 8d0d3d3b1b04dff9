internal import BlobRecord

/// Where things lie in the file of uses, and how its sweeps and epochs follow each other: Spec/Uses.md.
///
/// Invariant: `blockCount` is a power of two within `blockCounts`.
struct UsesLayout: Hashable, Sendable {
  let blockCount: Int

  /// The bytes `BLOBUSE` and a zero, as a little-endian integer.
  static let magic: UInt64 = 0x0045_5355_424F_4C42
  static let version: UInt64 = 1

  /// Blocks that were aged, one after another, in all.
  static let agedBlocksOffset = 16
  /// When epochs began, in Unix seconds: that of a mark at the mark's place, from 1 on.
  static let epochStartsOffset = 128
  /// Where the blocks begin, on a page of their own.
  static let blocksOffset = 4096
  /// Four words of sixteen counters, then four of sixteen marks: a cache line.
  static let blockByteCount = 64
  static let marksOffset = 32

  /// From 128 records to two million, in 8 KiB to 64 MiB.
  static let blockCounts = 1 << 6...1 << 20
  private static let recordsPerBlock = 2
  /// How many blocks are aged at a time.
  static let blocksPerStep = 4
  /// How many epochs pass between two visits of the sweep to a block.
  private static let epochsPerSweep = 8

  init(blockCount: Int) { self.blockCount = blockCount }

  /// The smallest that tells so many records apart well.
  init(records: Int64) {
    var count = Self.blockCounts.lowerBound
    while count < Self.blockCounts.upperBound, Int64(count * Self.recordsPerBlock) < records { count *= 2 }
    blockCount = count
  }

  /// - Returns: nil for a size that no such file has.
  init?(byteCount: Int64) {
    let bytes = byteCount - Int64(Self.blocksOffset)
    guard bytes > 0, bytes % Int64(Self.blockByteCount) == 0 else { return nil }
    let count = Int(bytes / Int64(Self.blockByteCount))
    guard Self.blockCounts.contains(count), count & (count - 1) == 0 else { return nil }
    blockCount = count
  }

  /// The most records that a file tells apart well, at its largest size.
  static var mostRecords: Int64 { Int64(blockCounts.upperBound * recordsPerBlock) }

  var recordCapacity: Int64 { Int64(blockCount * Self.recordsPerBlock) }
  var byteCount: Int { Self.blocksOffset + blockCount * Self.blockByteCount }

  static func startOffset(of epoch: UsesEpoch) -> Int { epochStartsOffset + 8 * Int(epoch.mark) }

  func offset(ofBlock block: Int) -> Int { Self.blocksOffset + block * Self.blockByteCount }

  /// The epoch in which so many blocks were aged.
  func epoch(afterAging blocks: UInt64) -> UsesEpoch {
    // A shift, because each use asks, and a division by a power of two that the compiler does not know takes as long as
    // the rest.
    UsesEpoch(number: blocks >> UInt64((blockCount / Self.epochsPerSweep).trailingZeroBitCount))
  }

  /// How many blocks a file of another size has aged by the same epoch.
  func agedBlocks(atStartOf epoch: UsesEpoch) -> UInt64 { epoch.number &* UInt64(blockCount / Self.epochsPerSweep) }

  /// The oldest that a mark may be when the sweep comes by, so that it can still be told when it comes by next.
  static let oldestMarkAge = UsesEpoch.count - 1 - UInt64(epochsPerSweep)
}

/// A span of uses: an eighth of the time in which all counters are halved once.
struct UsesEpoch: Hashable, Sendable {
  let number: UInt64

  /// How many are told apart.
  static let count: UInt64 = 15

  /// Its number in four bits: 1 to 15; 0 stands for none.
  var mark: UInt64 { 1 + number % Self.count }

  /// How many epochs ago a mark was set.
  func age(ofMark mark: UInt64) -> UInt64 { (self.mark + Self.count - mark) % Self.count }

  /// Sixteen marks without those that would soon stand for another epoch.
  func forgettingOld(_ marks: UInt64) -> UInt64 {
    var kept: UInt64 = 0
    for shift in stride(from: UInt64(0), to: 64, by: 4) {
      let mark = marks >> shift & 15
      if mark != 0, age(ofMark: mark) <= UsesLayout.oldestMarkAge { kept |= mark << shift }
    }
    return kept
  }
}
