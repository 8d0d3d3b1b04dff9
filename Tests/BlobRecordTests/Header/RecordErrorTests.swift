import BlobRecord
import Testing

@Suite struct RecordErrorTests {
  /// Codes and names are specified, and appear in JSON that programs read.
  static let table: [(RecordError, Int, String, Int?)] = [
    (.magicMismatch(found: 1), 100, "magicMismatch", 0),
    (.headerAlignmentMismatch, 101, "headerAlignmentMismatch", nil),
    (.wrongHeaderSize(found: 1), 102, "wrongHeaderSize", 4),
    (.wrongPayloadSize(stated: 1, found: 2), 103, "wrongPayloadSize", 32),
    (.invalidHeaderCRC(stated: 1, computed: 2), 104, "invalidHeaderCRC", 60),
    (.notEnoughDataToGetHeader(byteCount: 1), 105, "notEnoughDataToGetHeader", nil),
    (.recordIsStreamAndBusy, 106, "recordIsStreamAndBusy", 56),
    (.internalInconsistency, 107, "internalInconsistency", nil),
    (.payloadChecksumMismatch(stated: 1, computed: 2), 108, "payloadChecksumMismatch", 48),
    (.keyMismatch(stated: 1, expected: 2), 109, "keyMismatch", 40),
    (.unsupportedFlags(RecordFlags(rawValue: 8)), 110, "unsupportedFlags", 56),
    (.writableByOthers, 111, "writableByOthers", nil),
    (.invalidExtension, 112, "invalidExtension", 52),
    (.abandonedStream, 113, "abandonedStream", 56),
  ]

  @Test(arguments: table)
  func codesNamesAndOffsetsAreTheSpecifications(error: RecordError, code: Int, name: String, offset: Int?) {
    #expect(error.code == code)
    #expect(error.name == name)
    #expect(error.offset == offset)
    #expect(error.description.hasPrefix(name))
  }

  @Test func codesAreUsedOnce() {
    #expect(Set(Self.table.map(\.0.code)) == Set(100...113))
  }

  @Test func descriptionsTellWhatWasFoundAndWhatBelongs() {
    #expect(
      RecordError.magicMismatch(found: 0xDEAD_BEEF).description
        == "magicMismatch: 0xDEADBEEF where 0x46545053 belongs")
    #expect(
      RecordError.wrongPayloadSize(stated: .max, found: 5).description
        == "wrongPayloadSize: the header states 18446744073709551615 bytes, the file holds 5")
    #expect(
      RecordError.unsupportedFlags([.keyDigest, RecordFlags(rawValue: 0x10)]).description
        == "unsupportedFlags: keyDigest, unknown 0x10")
  }
}
