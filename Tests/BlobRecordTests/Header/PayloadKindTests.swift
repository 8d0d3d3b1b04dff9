import BlobRecord
import Testing

@Suite struct PayloadKindTests {
  static func kind(_ bytes: [UInt8]) -> PayloadKind { PayloadKind(guessedFrom: bytes.span.bytes) }

  @Test(
    arguments: [
      ([], .empty),
      ([0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A, 0], .png),
      ([0xFF, 0xD8, 0xFF, 0xE0], .jpeg),
      (Array("GIF89a".utf8), .gif),
      (Array("GIF87a".utf8), .gif),
      (Array("RIFF".utf8) + [1, 2, 3, 4] + Array("WEBPVP8 ".utf8), .webP),
      (Array("RIFF".utf8) + [1, 2, 3, 4] + Array("WAVE".utf8), .unknown),
      (Array("ID3".utf8) + [4, 0], .mp3),
      ([0xFF, 0xFB, 0x90, 0x00], .mp3),
      ([0xFF, 0xFB, 0xF0, 0x00], .unknown),
      ([0xFF, 0xFB, 0x9C, 0x00], .unknown),
      ([0, 0, 0, 0x20] + Array("ftypisom".utf8), .mp4),
      ([0x1F, 0x8B, 0x08, 0], .gzip),
      ([0x1F, 0x8B], .unknown),
      ([0x89, 0x50], .unknown),
      ([0], .unknown),
      (Array("a\u{0}b".utf8), .unknown),
    ] as [([UInt8], PayloadKind)])
  func signaturesTell(bytes: [UInt8], kind: PayloadKind) {
    #expect(Self.kind(bytes) == kind)
  }

  @Test(
    arguments: [
      ("{}", .json), ("{\"a\": 1}", .json), (" \n[1, 2]", .json), ("[]", .json), ("[{\"a\":1}]", .json), ("{", .json),
      ("hello\tworld\r\n", .text), ("naïve café", .text), ("{not json", .text), ("[section]", .text), ("12", .text),
      ("bell\u{7}", .unknown), ("del\u{7F}", .unknown),
    ] as [(String, PayloadKind)])
  func textIsTold(text: String, kind: PayloadKind) {
    #expect(Self.kind(Array(text.utf8)) == kind)
  }

  @Test(arguments: 0..<4) func aCharacterCutByTheWindowIsStillText(shift: Int) {
    let text = String(repeating: "x", count: shift) + String(repeating: "😀", count: 300)
    #expect(Self.kind(Array(text.utf8)) == .text)
    // As a whole payload, the same bytes are text only if they end with a complete character.
    let whole = Self.kind(Array(text.utf8.prefix(PayloadKind.examinedByteCount - 1)))
    #expect(whole == (shift == 3 ? .text : .unknown))
  }

  @Test func whatLiesBehindTheWindowIsNotLookedAt() {
    #expect(Self.kind([UInt8](repeating: 0x61, count: 512) + [0, 0]) == .text)
  }
}
