import TestSupport
import Testing

@testable import BlobStore

@Suite struct PackAddressTests {
  static let places: [(Int, Int, Int)] = [
    (0, 0, 0), (1, 0, 8), (0, 1, 472), (1023, 1023, 1_032_128), (512, 3, 258_048), (7, 1000, 516_096),
  ]

  @Test(arguments: places) func partsComeBack(pack: Int, chunk: Int, offset: Int) {
    let address = PackAddress(pack: pack, chunk: chunk, offset: offset)
    #expect(address.pack == pack && address.chunk == chunk && address.offset == offset)
    #expect(address.rawValue == UInt64((pack * 1024 + chunk) * 131_072 + offset / 8))
    #expect(PackAddress(rawValue: address.rawValue) == address)
    #expect(address.fileOffset == 2_166_784 + chunk * 1_032_192 + offset)
    #expect(address.quarter == offset / 258_048)
    #expect(address.cell == offset % 258_048 / 64)
    #expect(address.canHoldRecord)
  }

  @Test func theBitOfACellLiesBehindTheSalt() {
    // Byte 8 + cell / 8 of the sector, in words of eight bytes.
    let address = PackAddress(pack: 0, chunk: 2, offset: 258_048 + 64 * 131)
    #expect(address.saltWordOffset == 69_632 + (2 * 4 + 1) * 512)
    #expect(address.deadWordOffset == address.saltWordOffset + 8 + 16)
    #expect(address.deadBit == 1 << 3)
  }

  @Test func noTwoPlacesOfAChunkShareABitUnlessTheyShareACell() {
    var bits: Set<[Int]> = []
    for cell in 0..<(PackLayout.chunkByteCount / 64) {
      let address = PackAddress(pack: 0, chunk: 0, offset: cell * 64)
      #expect(bits.insert([address.deadWordOffset, address.deadBit.trailingZeroBitCount]).inserted)
      #expect(address.deadWordOffset % 512 >= 8 && address.deadWordOffset % 512 <= 504)
    }
  }

  @Test(
    arguments: [
      (0, true), (472, true), (480, false), (504, false), (512, true), (1_032_128, true), (1_032_136, false),
      (1_032_152, false), (1_032_184, false),
    ])
  func aRecordBeginsOnlyWhereItsHeaderFits(offset: Int, isPlace: Bool) {
    #expect(PackAddress(pack: 0, chunk: 0, offset: offset).canHoldRecord == isPlace)
  }

  @Test func anyBitsAreAnAddress() {
    var generator = SeededGenerator(seed: SeededGenerator.announcedSeed(for: "anyBitsAreAnAddress"))
    for number in 0..<20_000 {
      // The addresses include those past the chunk's end.
      let word = number < 4096 ? UInt64(131_071 - number) : generator.next()
      let address = PackAddress(rawValue: word)
      #expect(address.rawValue == word & 0x1F_FFFF_FFFF)
      #expect(0..<1024 ~= address.pack && 0..<1024 ~= address.chunk)
      #expect(address.byteCountToChunkEnd >= 0)
      if address.canHoldRecord {
        #expect(0..<4 ~= address.quarter && 0..<4032 ~= address.cell && address.byteCountToChunkEnd >= 64)
      }
      let entry = IndexEntry(rawValue: word)
      #expect(entry.readByteCount <= address.byteCountToChunkEnd)
    }
  }
}
