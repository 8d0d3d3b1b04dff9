import BlobRecord
import CZlib
import TestSupport
import Testing

@Suite struct CRC32Tests {
  /// The check value of CRC-32/ISO-HDLC in the catalogue of parametrised CRC algorithms.
  @Test func theCheckValueIsTheCatalogues() {
    #expect(CRC32.checksum(of: Array("123456789".utf8)) == 0xCBF4_3926)
  }

  @Test func noBytesGiveZero() {
    #expect(CRC32().value == 0)
    #expect(CRC32.checksum(of: []) == 0)
  }

  @Test(arguments: [0, 1, 2, 3, 7, 8, 15, 16, 17, 60, 63, 64, 65, 255, 256, 4095, 4096, 100_003])
  func checksumsAreZlibs(byteCount: Int) {
    let seed = SeededGenerator.announcedSeed(for: "checksumsAreZlibs(\(byteCount))")
    var generator = SeededGenerator(seed: seed)
    let bytes = generator.bytes(byteCount)
    #expect(CRC32.checksum(of: bytes) == UInt32(crc32(0, bytes, uInt(byteCount))), "seed \(seed)")
  }

  @Test func piecesGiveWhatTheWholeGives() throws {
    let seed = SeededGenerator.announcedSeed(for: "piecesGiveWhatTheWholeGives")
    var generator = SeededGenerator(seed: seed)
    let bytes = generator.bytes(1000)
    let whole = CRC32.checksum(of: bytes)
    for _ in 0..<200 {
      var crc = CRC32()
      var start = 0
      while start < bytes.count {
        // Empty pieces are among them: zlib answers a null pointer with its initial value.
        let end = min(bytes.count, start + Int.random(in: 0...200, using: &generator))
        crc.update(Array(bytes[start..<end]).span.bytes)
        start = end
      }
      crc.update([UInt8]().span.bytes)
      try #require(crc.value == whole, "seed \(seed)")
    }
  }
}
