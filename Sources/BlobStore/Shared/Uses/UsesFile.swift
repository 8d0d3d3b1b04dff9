internal import BlobRecord
internal import Locks
internal import Posix
internal import Synchronization

/// `.blobcache-uses` at the root: how often and when keys were used lately, in a file of its own that grows.
enum UsesFile {
  static let name = ".blobcache-uses"

  /// - Parameter words: what a new file begins with.
  static func format(_ layout: UsesLayout, words: @escaping @Sendable () -> [UInt64] = { [] }) -> SharedFile.Format {
    SharedFile.Format(
      name: name, title: "the file of uses", loss: "no uses are counted", magic: UsesLayout.magic,
      version: UsesLayout.version, byteCount: layout.byteCount, lockedBytes: 0..<1,
      firstWords: words)
  }

  /// The words of a file in which nothing was counted.
  static func emptyWords(of layout: UsesLayout) -> [UInt64] {
    var words = [UInt64](repeating: 0, count: layout.byteCount / 8)
    words[0] = UsesLayout.magic
    words[1] = UsesLayout.version
    return words
  }
}

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

/// The files of uses that a process has mapped for one control file, of which the last counts.
///
/// A hit in memory counts a use without a lock. So a sketch is kept until the control file is closed: there are few, each
/// at least twice as large as the one before.
@safe final class OpenUses: Sendable {
  private let newest = unsafe Atomic<Unmanaged<UseSketch>?>(nil)
  /// Keeps what `newest` has pointed to.
  private let all = Lock<[UseSketch]>([])
  /// The number of a file that could not be opened.
  private let failed = Atomic<Int64>(0)

  /// Runs a closure with the sketch of a number, which is opened if it is a new one.
  ///
  /// - Parameters:
  ///   - number: the newest file's, by the control file; 0: none.
  ///   - open: nil where the file cannot be opened; it is not tried again for the same number.
  func withSketch<Result>(
    _ number: Int64, opening open: () -> UseSketch?, _ body: (UseSketch) -> Result
  ) -> Result? {
    guard number != 0 else { return nil }
    if let result = withKnownSketch(number, body) { return result }
    guard failed.load(ordering: .relaxed) != number else { return nil }
    return sketch(number, opening: open).map(body)
  }

  /// Runs a closure with the sketch of a number, if it is open.
  func withKnownSketch<Result>(_ number: Int64, _ body: (UseSketch) -> Result) -> Result? {
    // Safe because `all` keeps the object, and `body` cannot outlive the control file that holds this.
    guard let known = unsafe newest.load(ordering: .acquiring) else { return nil }
    return unsafe known._withUnsafeGuaranteedRef { $0.number == number ? body($0) : nil }
  }

  /// Whether `withSketch` opens nothing for a number.
  func isKnown(_ number: Int64) -> Bool {
    guard number != 0, failed.load(ordering: .relaxed) != number else { return true }
    // Safe as there.
    guard let known = unsafe newest.load(ordering: .acquiring) else { return false }
    return unsafe known._withUnsafeGuaranteedRef { $0.number == number }
  }

  /// The sketch of a new number, opened once, however many threads ask for it.
  ///
  /// A thread comes here if `newest` has not had the number. Another thread may have opened it since.
  func sketch(_ number: Int64, opening open: () -> UseSketch?) -> UseSketch? {
    all.withLock { all in
      if let last = all.last, last.number == number { return last }
      guard failed.load(ordering: .relaxed) != number else { return nil }
      guard let sketch = open() else {
        failed.store(number, ordering: .relaxed)
        return nil
      }
      all.append(sketch)
      unsafe newest.store(.passUnretained(sketch), ordering: .releasing)
      return sketch
    }
  }
}
