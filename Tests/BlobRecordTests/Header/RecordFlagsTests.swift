import BlobRecord
import Testing

@Suite struct RecordFlagsTests {
  @Test func valuesAreTheSpecifications() {
    #expect(RecordFlags.streamIncomplete.rawValue == 0x1)
    #expect(RecordFlags.payloadChecksum.rawValue == 0x2)
    #expect(RecordFlags.keyDigest.rawValue == 0x4)
    #expect(RecordFlags.hasExtension.rawValue == 0x8)
    #expect(RecordFlags.known.rawValue == 0xF)
  }

  @Test(
    arguments: [
      (0, "none"),
      (0x1, "streamIncomplete"),
      (0x6, "payloadChecksum, keyDigest"),
      (0x7, "streamIncomplete, payloadChecksum, keyDigest"),
      (0x8, "extension"),
      (0x10, "unknown 0x10"),
      (0x8000_000A, "payloadChecksum, extension, unknown 0x80000000"),
    ] as [(UInt32, String)])
  func descriptionsNameWhatIsSet(rawValue: UInt32, description: String) {
    #expect(RecordFlags(rawValue: rawValue).description == description)
  }
}
