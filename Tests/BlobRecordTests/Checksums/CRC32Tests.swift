import BlobRecord
import CZlib
import Foundation
import TestSupport
import Testing

@Suite struct CRC32Tests {
  /// The check value of CRC-32/ISO-HDLC in the catalogue of parametrised CRC algorithms.
  @Test func theCheckValueIsTheCatalogues() {
    #expect(CRC32.checksum(of: Array("123456789".utf8)) == 0xCBF4_3926)
  }

  @Test func withoutISALTheCheckValueIsTheSame() {
    var crc = CRC32(avoidsISAL: true)
    crc.update(Array("1234".utf8).span.bytes)
    crc.update(Array("56789".utf8).span.bytes)
    #expect(crc.value == 0xCBF4_3926)
  }

  /// If ISA-L is installed, compares its checksums with zlib's at every length that the inner loops distinguish.
  @Test func withAndWithoutISALTheChecksumIsTheSame() throws {
    let seed = SeededGenerator.announcedSeed(for: "withAndWithoutISALTheChecksumIsTheSame")
    var generator = SeededGenerator(seed: seed)
    let bytes = generator.bytes(3000)
    for byteCount in 0...bytes.count {
      let start = Int.random(in: 0...bytes.count - byteCount, using: &generator)
      let piece = bytes.span.bytes.extracting(start..<start + byteCount)
      var crc = CRC32(avoidsISAL: true)
      crc.update(piece)
      try #require(CRC32.checksum(of: piece) == crc.value, "\(byteCount) bytes from \(start), seed \(seed)")
    }
  }

  @Test func theLibraryInUseIsNamed() {
    let isInstalled = ISAL.find(in: ISAL.libraryName) != nil
    #expect(CRC32.library == CRC32.library(isISAL: isInstalled))
    #expect(CRC32.library(isISAL: true) == "ISA-L (libisal.so.2)")
    #expect(CRC32.library(isISAL: false).hasPrefix("zlib 1."))
  }

  /// A library with that name that lacks the function is not used.
  @Test(arguments: ["libnosuchlibrary.so.1", "libz.so.1"])
  func whereTheFunctionIsMissingZlibComputes(library: String) {
    #expect(ISAL.find(in: library) == nil)
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

  /// Libraries handle short, unaligned and trailing bytes separately. They must not read the following page, which is
  /// not mapped.
  @Test func everyLengthEndsWithTheMemory() throws {
    let seed = SeededGenerator.announcedSeed(for: "everyLengthEndsWithTheMemory")
    var generator = SeededGenerator(seed: seed)
    let page = Int(sysconf(CInt(_SC_PAGESIZE)))
    let anonymous = MAP_PRIVATE | MAP_ANON
    let mapped = try #require(mmap(nil, 2 * page, PROT_READ | PROT_WRITE, anonymous, -1, 0))
    try #require(mapped != MAP_FAILED)
    defer { munmap(mapped, 2 * page) }
    try #require(mprotect(mapped + page, page, PROT_NONE) == 0)
    let bytes = UnsafeMutableRawBufferPointer(start: mapped, count: page)
    bytes.copyBytes(from: generator.bytes(page))
    for byteCount in 1...page {
      let tail = UnsafeRawBufferPointer(rebasing: bytes[(page - byteCount)...])
      let expected = UInt32(crc32(0, tail.bindMemory(to: UInt8.self).baseAddress, uInt(byteCount)))
      try #require(CRC32.checksum(of: RawSpan(_unsafeBytes: tail)) == expected, "\(byteCount) bytes, seed \(seed)")
    }
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
        // Some pieces are empty, because zlib returns its initial value for a null pointer.
        let end = min(bytes.count, start + Int.random(in: 0...200, using: &generator))
        crc.update(Array(bytes[start..<end]).span.bytes)
        start = end
      }
      crc.update([UInt8]().span.bytes)
      try #require(crc.value == whole, "seed \(seed)")
    }
  }
}
