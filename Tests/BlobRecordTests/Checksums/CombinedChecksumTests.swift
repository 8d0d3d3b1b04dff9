import BlobRecord
import TestSupport
import Testing

@Suite struct CombinedChecksumTests {
  @Test(arguments: [(0, 0), (0, 1), (1, 0), (64, 5), (64, 1 << 20), (100_003, 77)])
  func theChecksumOfTwoRunsIsThatOfTheWhole(first: Int, second: Int) {
    let bytes = (0..<(first + second)).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 >> 7) }
    let (start, end) = (Array(bytes[..<first]), Array(bytes[first...]))
    let combined = CRC32.combined(
      CRC32.checksum(of: start.span.bytes), CRC32.checksum(of: end.span.bytes), byteCount: Int64(second))
    #expect(combined == CRC32.checksum(of: bytes.span.bytes))
  }
}
