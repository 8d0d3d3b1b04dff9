import BlobRecord
import Testing

@Suite struct NameDigestTests {
  /// Vectors published by the authors of FNV.
  @Test(
    arguments: [
      ("", 0xcbf2_9ce4_8422_2325),
      ("a", 0xaf63_dc4c_8601_ec8c),
      ("foobar", 0x8594_4171_f739_67e8),
    ] as [(String, UInt64)])
  func digestsAreThePublishedOnes(fileName: String, digest: UInt64) {
    #expect(NameDigest.digest(ofFileName: fileName) == digest)
  }

  @Test func digestsAreOfBytesNotOfCharacters() {
    #expect("é" == "e\u{301}")
    #expect(NameDigest.digest(ofFileName: "é") != NameDigest.digest(ofFileName: "e\u{301}"))
  }
}
