import BlobRecord
import Testing

@Suite struct RecordHeaderTests {
  /// The check values of Spec/RecordFormat.md, which SPTPersistentCache computes too.
  @Test(
    arguments: [
      (0, 34151, 1488, 0, 0x262A_B509),
      (7200, 34151, 1488, 1, 0x329D_4C03),
      (64, 400, 1488, 1, 0xA459_05C7),
    ] as [(UInt64, UInt64, UInt64, UInt32, UInt32)])
  func headerCRCsAreTheReferences(ttl: UInt64, payloadSize: UInt64, time: UInt64, refCount: UInt32, crc: UInt32) {
    let header = RecordHeader(refCount: refCount, ttl: ttl, updateTime: time, payloadSize: payloadSize)
    #expect(header.crc == crc)
  }
}
