import BlobRecord
import TestSupport
import Testing

@Suite struct StoredHeaderTests {
  @Test func unsoundBytesAreStillTakenApart() throws {
    let stored = try StoredHeader(decoding: Array(0..<64))
    #expect(stored.magic == 0x0302_0100)
    #expect(stored.headerSize == 0x0706_0504)
    #expect(stored.refCount == 0x0B0A_0908)
    #expect(stored.reserved1 == 0x0F0E_0D0C)
    #expect(stored.ttl == 0x1716_1514_1312_1110)
    #expect(stored.updateTime == 0x1F1E_1D1C_1B1A_1918)
    #expect(stored.payloadSize == 0x2726_2524_2322_2120)
    #expect(stored.reserved2 == 0x2F2E_2D2C_2B2A_2928)
    #expect(stored.reserved3 == 0x3332_3130)
    #expect(stored.reserved4 == 0x3736_3534)
    #expect(stored.flags.rawValue == 0x3B3A_3938)
    #expect(stored.crc == 0x3F3E_3D3C)
    #expect(stored.computedCRC == CRC32.checksum(of: Array(0..<60)))
    #expect(throws: RecordError.magicMismatch(found: 0x0302_0100)) { try stored.validated() }
  }

  @Test func zeroBytesAreNoHeader() throws {
    let stored = try StoredHeader(decoding: [UInt8](repeating: 0, count: 64))
    #expect(throws: RecordError.magicMismatch(found: 0)) { try stored.validated() }
  }

  @Test func soundBytesMakeTheHeaderTheyCameFrom() throws {
    let header = RecordHeaderTests.distinct
    let stored = try StoredHeader(decoding: header.encodedBytes)
    #expect(try stored.validated() == header)
    #expect(stored.magic == RecordHeader.magic && stored.headerSize == 64)
    #expect(stored.crc == header.crc && stored.computedCRC == header.crc)
  }

  @Test(arguments: [0, 63]) func fewerThanSixtyFourBytesAreNotTakenApart(byteCount: Int) {
    let bytes = [UInt8](repeating: 0, count: byteCount)
    #expect(throws: RecordError.notEnoughDataToGetHeader(byteCount: Int64(byteCount))) {
      try StoredHeader(decoding: bytes)
    }
  }
}
