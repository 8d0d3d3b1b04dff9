import TestSupport
import Testing

@testable import BlobStore

/// Spec/PackFormat.md 1 and 2: the areas of a pack file, and the offsets at which records begin.
@Suite struct PackLayoutTests {
  @Test func thePlacesAreThoseOfTheSpecification() {
    #expect(PackLayout.tableOffset == 4096)
    #expect(PackLayout.deadSectorsOffset == 69_632)
    #expect(PackLayout.chunksOffset == 2_166_784)
    #expect(PackLayout.fileOffset(ofChunk: PackLayout.chunkCount) == 1_059_131_392)
    #expect(PackLayout.cellsPerQuarter == 4032)
    #expect(PackLayout.chunkByteCount % 4096 == 0 && PackLayout.chunksOffset % 4096 == 0)
    #expect(PackLayout.fileOffset(ofChunk: 1023) == 2_166_784 + 1023 * 1_032_192)
    #expect(PackLayout.tableEntryOffset(ofChunk: 2) == 4096 + 128)
    #expect(PackLayout.deadSectorOffset(ofChunk: 1, quarter: 3) == 69_632 + 7 * 512)
  }

  /// Returns the place according to the rule, by trying one offset after another without bit arithmetic.
  static func expectedPlace(after end: Int, byteCount: Int) -> Int? {
    (end...(end + 512)).first { offset in
      offset % 8 == 0 && offset / 512 == (offset + 39) / 512
    }.flatMap { $0 + byteCount <= 1_032_192 ? $0 : nil }
  }

  @Test(arguments: [64, 65, 512, 32_752]) func aRecordBeginsAtTheFirstOffsetThatIsAllowed(byteCount: Int) {
    let last = PackLayout.chunkByteCount
    for end in Array(0...1100) + Array((last - byteCount - 520)...last) {
      let place = PackLayout.place(after: end, byteCount: byteCount)
      #expect(place == Self.expectedPlace(after: end, byteCount: byteCount), "after \(end)")
    }
  }

  @Test(arguments: [-1, Int.min, PackLayout.chunkByteCount + 1, .max])
  func anEndOutsideOfTheChunkLeavesNoPlace(end: Int) {
    #expect(PackLayout.place(after: end, byteCount: 64) == nil)
  }

  @Test func recordsThatFollowEachOtherBeginInCellsOfTheirOwn() {
    var generator = SeededGenerator(seed: SeededGenerator.announcedSeed(for: "recordsThatFollowEachOther"))
    var end = 0
    var cells: Set<Int> = []
    while true {
      let byteCount = Int.random(in: 64...500, using: &generator)
      guard let offset = PackLayout.place(after: end, byteCount: byteCount) else { break }
      #expect(offset >= end && offset - end <= 40)
      #expect(cells.insert(offset / PackLayout.cellByteCount).inserted)
      end = offset + byteCount
    }
    #expect(end > PackLayout.chunkByteCount - 600)
  }

  @Test(
    arguments: [
      (1, 0, 0, 64), (24, 0, 0, 64), (24, 1, 0, 65), (255, 0, 0, 295), (24, 128, 16, 208), (1, 32_711, 0, 32_752),
      (1, 32_712, 0, nil), (255, 32_457, 0, 32_752), (255, 32_457, 1, nil), (0, 1, 0, nil), (256, 1, 0, nil),
      (1, -1, 0, nil), (1, 0, -1, nil), (1, .max, .max, nil), (1, 1, .max, nil),
    ] as [(Int, Int, Int, Int?)])
  func aRecordTakesItsPartsAndACellAtLeast(name: Int, payload: Int, tail: Int, byteCount: Int?) {
    #expect(PackLayout.recordByteCount(name: name, payload: payload, tail: tail) == byteCount)
  }

  @Test(arguments: [0, 1, 0x8000_0000, .max] as [UInt32]) func aSaltIsWrittenTwice(salt: UInt32) {
    let word = PackLayout.saltWord(of: salt)
    #expect(PackLayout.salt(in: word) == salt)
    for bit in UInt64(0)..<64 { #expect(PackLayout.salt(in: word ^ 1 << bit) == nil, "bit \(bit)") }
  }

  @Test func aSectorThatWasNeverWrittenHasNoSalt() {
    #expect(PackLayout.salt(in: 0) == nil)
  }
}
