internal import BlobRecord
internal import Locks
internal import Posix
internal import Synchronization

/// `.blobcache-uses` at the root, a file that grows, with the frequency and time of recent uses.
enum UsesFile {
  static let name = ".blobcache-uses"

  static func format(_ layout: UsesLayout, words: @escaping @Sendable () -> [UInt64] = { [] }) -> SharedFile.Format {
    SharedFile.Format(
      name: name, title: "the file of uses", loss: "no uses are counted", magic: UsesLayout.magic,
      version: UsesLayout.version, byteCount: layout.byteCount, hasOneName: true, lockedBytes: 0..<1,
      firstWords: words)
  }

  static func emptyWords(of layout: UsesLayout) -> [UInt64] {
    var words = [UInt64](repeating: 0, count: layout.byteCount / 8)
    words[0] = UsesLayout.magic
    words[1] = UsesLayout.version
    return words
  }
}

/// The layout of the file of uses (Spec/Uses.md), in which `blockCount` is a power of two in `blockCounts`.
struct UsesLayout: Hashable, Sendable {
  let blockCount: Int

  /// The bytes `BLOBUSE` and a zero, as a little-endian integer.
  static let magic: UInt64 = 0x0045_5355_424F_4C42
  static let version: UInt64 = 1

  /// The total number of blocks that were aged, one after another.
  static let agedBlocksOffset = 16
  /// The start times of epochs in Unix seconds, indexed by the epoch's mark, from 1.
  static let epochStartsOffset = 128
  /// The start of the blocks, which is the start of a page.
  static let blocksOffset = 4096
  /// Four words of sixteen counters, and four of sixteen marks, which are a cache line.
  static let blockByteCount = 64
  static let marksOffset = 32

  /// The permitted numbers of blocks: for 128 to two million records, in 8 KiB to 64 MiB.
  static let blockCounts = 1 << 6...1 << 20
  private static let recordsPerBlock = 2
  static let blocksPerStep = 4
  /// The number of epochs between two visits of the sweep to a block.
  private static let epochsPerSweep = 8

  init(blockCount: Int) { self.blockCount = blockCount }

  /// Creates the smallest layout that distinguishes this many records well.
  init(records: Int64) {
    var count = Self.blockCounts.lowerBound
    while count < Self.blockCounts.upperBound, Int64(count * Self.recordsPerBlock) < records { count *= 2 }
    blockCount = count
  }

  /// Creates the layout of a file of this size, or returns `nil` if no such file has it.
  init?(byteCount: Int64) {
    let bytes = byteCount - Int64(Self.blocksOffset)
    guard bytes > 0, bytes % Int64(Self.blockByteCount) == 0 else { return nil }
    let count = Int(bytes / Int64(Self.blockByteCount))
    guard Self.blockCounts.contains(count), count & (count - 1) == 0 else { return nil }
    blockCount = count
  }

  static var mostRecords: Int64 { Int64(blockCounts.upperBound * recordsPerBlock) }

  var recordCapacity: Int64 { Int64(blockCount * Self.recordsPerBlock) }
  var byteCount: Int { Self.blocksOffset + blockCount * Self.blockByteCount }

  static func startOffset(of epoch: UsesEpoch) -> Int { epochStartsOffset + 8 * Int(epoch.mark) }

  func offset(ofBlock block: Int) -> Int { Self.blocksOffset + block * Self.blockByteCount }

  /// Returns the epoch after a number of aged blocks.
  func epoch(afterAging blocks: UInt64) -> UsesEpoch {
    // A shift, because each use needs the epoch, and dividing by a power of two that is unknown to the compiler takes
    // as long as everything else.
    UsesEpoch(number: blocks >> UInt64((blockCount / Self.epochsPerSweep).trailingZeroBitCount))
  }

  /// Returns the number of blocks that a file of this size has aged at the start of an epoch.
  func agedBlocks(atStartOf epoch: UsesEpoch) -> UInt64 { epoch.number &* UInt64(blockCount / Self.epochsPerSweep) }

  /// The greatest age of a mark that is still distinguishable at the next visit of the sweep.
  static let oldestMarkAge = UsesEpoch.count - 1 - UInt64(epochsPerSweep)
}

/// An eighth of the time in which all counters are halved once.
struct UsesEpoch: Hashable, Sendable {
  let number: UInt64

  static let count: UInt64 = 15

  /// The number in four bits, from 1 to 15, because 0 indicates no mark.
  var mark: UInt64 { 1 + number % Self.count }

  func age(ofMark mark: UInt64) -> UInt64 { (self.mark + Self.count - mark) % Self.count }

  /// Returns sixteen marks without the ones that would soon be mistaken for another epoch.
  func forgettingOld(_ marks: UInt64) -> UInt64 {
    var kept: UInt64 = 0
    for shift in stride(from: UInt64(0), to: 64, by: 4) {
      let mark = marks >> shift & 15
      if mark != 0, age(ofMark: mark) <= UsesLayout.oldestMarkAge { kept |= mark << shift }
    }
    return kept
  }
}

/// The files of uses that a process has mapped for one control file, of which the last is in use.
///
/// A memory hit counts a use without a lock, so sketches are kept until the control file is closed. There are few,
/// because each is at least twice as large as the one before.
@safe final class OpenUses: Sendable {
  private let newest = unsafe Atomic<Unmanaged<UseSketch>?>(nil)
  /// Retains all sketches to which `newest` has pointed.
  private let all = Lock<[UseSketch]>([])
  /// The number of a file that could not be opened.
  private let failed = Atomic<Int64>(0)

  /// Calls a closure with the sketch of a number, which is opened if it is new. The number 0 has no sketch. If `open`
  /// returns `nil`, it is not called again for the same number.
  func withSketch<Result>(
    _ number: Int64, opening open: () -> UseSketch?, _ body: (UseSketch) -> Result
  ) -> Result? {
    guard number != 0 else { return nil }
    if let result = withKnownSketch(number, body) { return result }
    guard failed.load(ordering: .relaxed) != number else { return nil }
    return sketch(number, opening: open).map(body)
  }

  func withKnownSketch<Result>(_ number: Int64, _ body: (UseSketch) -> Result) -> Result? {
    // Safe because `all` retains the object, and `body` cannot outlive the control file that owns this.
    guard let known = unsafe newest.load(ordering: .acquiring) else { return nil }
    return unsafe known._withUnsafeGuaranteedRef { $0.number == number ? body($0) : nil }
  }

  /// Returns whether `withSketch` would open no file for a number.
  func isKnown(_ number: Int64) -> Bool {
    guard number != 0, failed.load(ordering: .relaxed) != number else { return true }
    // Safe for the same reason.
    guard let known = unsafe newest.load(ordering: .acquiring) else { return false }
    return unsafe known._withUnsafeGuaranteedRef { $0.number == number }
  }

  /// Opens the sketch of a new number once. Another thread may have opened it since the caller has read `newest`.
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
