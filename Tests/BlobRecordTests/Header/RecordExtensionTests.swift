import BlobRecord
import TestSupport
import Testing

/// Spec/RecordFormat.md 7.
@Suite struct RecordExtensionTests {
  private static let long = BlobKey(String(repeating: "k\u{E9}", count: 20_000))

  @Test(
    arguments: [nil, "k", "caf\u{E9}", long] as [BlobKey?], [0, 1, 17, 4095, 4096])
  func whatIsEncodedIsDecoded(key: BlobKey?, dataByteCount: Int) throws {
    let whole = RecordExtension(key: key, data: (0..<dataByteCount).map { UInt8(truncatingIfNeeded: $0) })
    let bytes = whole.encoded
    #expect(bytes.count == whole.byteCount)
    #expect(try RecordExtension(decoding: bytes.span.bytes) == whole)
    // The decoder ignores bytes before the extension.
    #expect(try RecordExtension(decoding: ([1, 2, 3] + bytes).span.bytes) == whole)
  }

  /// The example's bytes in the specification, written by hand.
  @Test func theBytesAreThoseOfTheSpecification() throws {
    let body = Array("keytype".utf8) + [3, 0, 0, 0, 4, 0, 0, 0] + Array("SPTX".utf8)
    let crc = CRC32.checksum(of: body)
    let bytes = body + (0..<4).map { UInt8(truncatingIfNeeded: crc >> UInt32(8 * $0)) }
    #expect(RecordExtension(key: "key", data: Array("type".utf8)).encoded == bytes)
  }

  @Test func everyFlippedBitIsFound() {
    let bytes = RecordExtension(key: "key", data: [1, 2, 3]).encoded
    for bit in 0..<(bytes.count * 8) {
      var damaged = bytes
      damaged[bit / 8] ^= 1 << UInt8(bit % 8)
      #expect(throws: RecordError.invalidExtension, "bit \(bit)") {
        try RecordExtension(decoding: damaged.span.bytes)
      }
    }
  }

  @Test func everyMissingByteIsFound() {
    let bytes = RecordExtension(key: "key", data: [1, 2, 3]).encoded
    for count in 1...bytes.count {
      #expect(throws: RecordError.invalidExtension) {
        try RecordExtension(decoding: Array(bytes.dropFirst(count)).span.bytes)
      }
      #expect(throws: RecordError.invalidExtension) {
        try RecordExtension(decoding: Array(bytes.dropLast(count)).span.bytes)
      }
    }
  }

  /// Sizes whose sum exceeds the extension or the maximum of a record, with a valid CRC.
  @Test(
    arguments: [
      (4, 0), (0, 4), (2, 2), (.max, 0), (0, .max), (.max, .max), (65_537, 0), (0, 4097),
    ] as [(UInt32, UInt32)])
  func statedSizesAreNotBelieved(keyByteCount: UInt32, dataByteCount: UInt32) {
    func littleEndian(_ number: UInt32) -> [UInt8] {
      (0..<4).map { UInt8(truncatingIfNeeded: number >> UInt32(8 * $0)) }
    }
    let body =
      Array("abc".utf8) + littleEndian(keyByteCount) + littleEndian(dataByteCount) + Array("SPTX".utf8)
    let bytes = body + littleEndian(CRC32.checksum(of: body))
    #expect(throws: RecordError.invalidExtension) { try RecordExtension(decoding: bytes.span.bytes) }
  }

  @Test func aKeyThatIsNoTextIsNoKey() {
    let body = [0xFF, 1, 0, 0, 0, 0, 0, 0, 0] + Array("SPTX".utf8)
    let crc = CRC32.checksum(of: body)
    let bytes = body + (0..<4).map { UInt8(truncatingIfNeeded: crc >> UInt32(8 * $0)) }
    #expect(throws: RecordError.invalidExtension) { try RecordExtension(decoding: bytes.span.bytes) }
  }

  @Test func theHeaderSaysWhereItEnds() {
    var header = RecordHeader(updateTime: 0, payloadSize: 1)
    #expect(header.extensionEnd == nil)
    header.extensionEnd = 20
    #expect(header.flags == .hasExtension && header.reserved4 == 20 && header.extensionEnd == 20)
    header.extensionEnd = nil
    #expect(header == RecordHeader(updateTime: 0, payloadSize: 1))
  }
}
