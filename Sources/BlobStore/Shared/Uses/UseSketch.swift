internal import BlobRecord
internal import Synchronization

/// The approximate frequency and last use of keys, which all processes of a directory share (Spec/Uses.md).
///
/// A key has four counters and four marks in one cache line. Keys share them, so the lowest counter and the earliest
/// mark are valid. Torn, lost, or stale numbers cost hits, never correctness.
final class UseSketch: Sendable {
  struct Uses: Equatable {
    /// The approximate number of recent uses, at most 15.
    var count = 0
    /// The start of the epoch of the last use, or `nil` if it is too long ago.
    var last: UnixTime?
  }

  private let file: SharedFile
  let layout: UsesLayout
  /// The number of the file in the control file when it was opened.
  let number: Int64

  init(_ file: SharedFile, _ layout: UsesLayout, number: Int64) {
    self.file = file
    self.layout = layout
    self.number = number
  }

  /// Counts a use. It reads and writes one cache line, and every 64th use ages four other lines.
  func count(_ digest: UInt64, at now: UnixTime) {
    let cells = UseCells(digest)
    let offset = layout.offset(ofBlock: cells.block(of: layout))
    let mark = epoch.mark
    let ages = unsafe file.withWords(at: offset, count: UsesLayout.blockByteCount / 8) { words in
      // Word by word, because a processor of the minimum architecture cannot shift four words by different amounts.
      var least = UseCells.most
      for index in 0..<4 {
        least = min(least, cells.value(index, in: unsafe words[index].load(ordering: .relaxed)))
      }
      var sum: UInt64 = 0
      for index in 0..<4 {
        let counters = unsafe words[index].load(ordering: .relaxed)
        let counted = cells.counting(index, in: counters, least: least)
        if counted != counters { unsafe words[index].store(counted, ordering: .relaxed) }
        sum &+= counted
        let marks = unsafe words[4 + index].load(ordering: .relaxed)
        let marked = cells.marking(index, in: marks, as: mark)
        // A cache line that is only read stays in the caches of all processors.
        if marked != marks { unsafe words[4 + index].store(marked, ordering: .relaxed) }
      }
      return least < UseCells.most && UseCells.choosesOneOf64(sum)
    }
    if ages { ageSome(at: now) }
  }

  func prefetch(_ digest: UInt64) { file.prefetch(at: layout.offset(ofBlock: UseCells(digest).block(of: layout))) }

  func uses(of digest: UInt64) -> Uses {
    let cells = UseCells(digest)
    let offset = layout.offset(ofBlock: cells.block(of: layout))
    let now = epoch
    let age = cells.age(in: row(at: offset + UsesLayout.marksOffset), at: now)
    return Uses(
      count: cells.count(in: row(at: offset)),
      last: age.flatMap { $0 > now.number ? nil : start(of: UsesEpoch(number: now.number - $0)) })
  }

  /// Returns the words of a larger file with the same counts and marks for every key.
  func words(in larger: UsesLayout) -> [UInt64] {
    var words = UsesFile.emptyWords(of: larger)
    words[UsesLayout.agedBlocksOffset / 8] = larger.agedBlocks(atStartOf: epoch)
    let starts = UsesLayout.epochStartsOffset / 8
    for index in starts...starts + Int(UsesEpoch.count) { words[index] = word(at: index * 8) }
    // A key's block has the same number, except for additional high bits.
    for index in UsesLayout.blocksOffset / 8..<words.count {
      let offset = (index * 8 - UsesLayout.blocksOffset) % (layout.blockCount * UsesLayout.blockByteCount)
      words[index] = word(at: UsesLayout.blocksOffset + offset)
    }
    return words
  }
}

// MARK: - Aging

extension UseSketch {
  private var epoch: UsesEpoch { layout.epoch(afterAging: word(at: UsesLayout.agedBlocksOffset)) }

  /// Halves the counters of a few blocks, and removes their old marks.
  private func ageSome(at now: UnixTime) {
    let count = UInt64(UsesLayout.blocksPerStep)
    let end = file.withWord(at: UsesLayout.agedBlocksOffset, as: UInt64.self) {
      $0.wrappingAdd(count, ordering: .relaxed).newValue
    }
    let epoch = layout.epoch(afterAging: end)
    // The start is set before this process marks a use with the new epoch.
    if epoch != layout.epoch(afterAging: end &- count) { setStart(of: epoch, to: now) }
    for block in 0..<count {
      let index = Int(truncatingIfNeeded: (end &- 1 &- block) & UInt64(layout.blockCount - 1))
      age(blockAt: layout.offset(ofBlock: index), in: epoch)
    }
  }

  private func age(blockAt offset: Int, in epoch: UsesEpoch) {
    let counters = row(at: offset)
    setRow(counters &>> 1 & 0x7777_7777_7777_7777, from: counters, at: offset)
    let marks = row(at: offset + UsesLayout.marksOffset)
    var kept = marks
    for index in 0..<4 where marks[index] != 0 { kept[index] = epoch.forgettingOld(marks[index]) }
    setRow(kept, from: marks, at: offset + UsesLayout.marksOffset)
  }

  private func start(of epoch: UsesEpoch) -> UnixTime {
    UnixTime(seconds: Int64(bitPattern: word(at: UsesLayout.startOffset(of: epoch))))
  }

  private func setStart(of epoch: UsesEpoch, to time: UnixTime) {
    setWord(UInt64(bitPattern: time.seconds), at: UsesLayout.startOffset(of: epoch))
  }
}

// MARK: - Words

extension UseSketch {
  private func word(at offset: Int) -> UInt64 {
    file.withWord(at: offset, as: UInt64.self) { $0.load(ordering: .relaxed) }
  }

  private func setWord(_ word: UInt64, at offset: Int) {
    file.withWord(at: offset, as: UInt64.self) { $0.store(word, ordering: .relaxed) }
  }

  private func row(at offset: Int) -> SIMD4<UInt64> {
    SIMD4(word(at: offset), word(at: offset + 8), word(at: offset + 16), word(at: offset + 24))
  }

  /// Writes only changed words, because a cache line that is only read stays in the caches of all processors.
  private func setRow(_ row: SIMD4<UInt64>, from old: SIMD4<UInt64>, at offset: Int) {
    for index in 0..<4 where row[index] != old[index] { setWord(row[index], at: offset + 8 * index) }
  }
}

/// The positions of a key's four counters and four marks in a block: one of sixteen in each word.
struct UseCells {
  private let spread: UInt64

  static let most: UInt64 = 15

  init(_ digest: UInt64) { spread = Self.mixed(digest) }

  @inline(__always)
  private func shift(_ index: Int) -> UInt64 { (spread &>> UInt64(4 &* index) & 15) &* 4 }

  @inline(__always)
  func value(_ index: Int, in word: UInt64) -> UInt64 { word &>> shift(index) & 15 }

  func block(of layout: UsesLayout) -> Int { Int(truncatingIfNeeded: spread >> 32) & (layout.blockCount - 1) }

  /// Returns the counters after a use. Only the lowest is incremented, because greater ones have counted other keys.
  @inline(__always)
  func counting(_ index: Int, in counters: UInt64, least: UInt64) -> UInt64 {
    least < Self.most && value(index, in: counters) == least ? counters &+ 1 &<< shift(index) : counters
  }

  @inline(__always)
  func marking(_ index: Int, in marks: UInt64, as mark: UInt64) -> UInt64 {
    marks & ~(15 &<< shift(index)) | mark &<< shift(index)
  }

  func count(in counters: SIMD4<UInt64>) -> Int { Int(values(in: counters).min()) }

  /// Returns the number of epochs since the key's last use, or `nil` if that is too long ago.
  func age(in marks: SIMD4<UInt64>, at epoch: UsesEpoch) -> UInt64? {
    let values = values(in: marks)
    guard values.min() > 0 else { return nil }
    return (0..<4).reduce(0) { max($0, epoch.age(ofMark: values[$1])) }
  }

  private func values(in words: SIMD4<UInt64>) -> SIMD4<UInt64> {
    SIMD4(value(0, in: words[0]), value(1, in: words[1]), value(2, in: words[2]), value(3, in: words[3]))
  }

  /// Returns `true` for about one in 64 states of a block's counters, whose words have this sum.
  static func choosesOneOf64(_ sum: UInt64) -> Bool { mixed(sum) & 63 == 0 }

  private static func mixed(_ word: UInt64) -> UInt64 {
    let product = (word ^ word >> 32) &* 0x9E37_79B9_7F4A_7C15
    return product ^ product >> 29
  }
}
