import Testing
import TextFormats

@Suite struct PercentEncodingTests {
  @Test(arguments: [
    ("", ""), ("-._~aZ9", "-._~aZ9"), ("a/b", "a%2Fb"), ("a b+%", "a%20b%2B%25"), ("ä\u{1F600}", "%C3%A4%F0%9F%98%80"),
  ])
  func escapesAreExact(plain: String, escaped: String) {
    #expect(PercentEncoding.encoded(plain) == escaped)
    #expect(PercentEncoding.decoded(escaped) == plain)
    #expect(PercentEncoding.decoded(escaped.lowercased()) == plain.lowercased())
    #expect(PercentEncoding.encoded("a/\(plain)", keepsSlashes: true) == "a/" + escaped.replacing("%2F", with: "/"))
  }

  @Test(arguments: ["%", "%4", "%4g", "%g4", "%FF", "a%", "%%41", "%+1"]) func wrongEscapesAreNone(text: String) {
    #expect(PercentEncoding.decoded(text) == nil)
  }

  @Test(arguments: [("%FF", [0xFF]), ("a%2F", [0x61, 0x2F]), ("%2", nil)] as [(String, [UInt8]?)])
  func decodedBytesNeedNotBeText(text: String, bytes: [UInt8]?) {
    #expect(PercentEncoding.bytes(decoding: text[...]) == bytes)
  }

  @Test func theCallerChoosesTheDigits() {
    #expect(PercentEncoding.bytes(decoding: "%2f", digit: Hexadecimal.upperCaseValue) == nil)
    #expect(PercentEncoding.bytes(decoding: "%2F", digit: Hexadecimal.upperCaseValue) == [0x2F])
  }
}
