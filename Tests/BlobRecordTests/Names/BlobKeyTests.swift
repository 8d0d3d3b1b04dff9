import BlobRecord
import Testing

@Suite struct BlobKeyTests {
  static let composed: BlobKey = "caf\u{E9}"
  static let decomposed: BlobKey = "cafe\u{301}"

  @Test func keysAreComparedAsBytes() {
    #expect(Self.composed.string == Self.decomposed.string)
    #expect(Self.composed != Self.decomposed)
    #expect(Self.composed == BlobKey("caf\u{E9}"))
  }

  @Test func canonicallyEquivalentKeysAreTwoEntries() {
    #expect(Set([Self.composed, Self.decomposed, Self.composed]).count == 2)
    var values = [Self.composed: 1, Self.decomposed: 2]
    #expect(values.count == 2)
    values["caf\u{E9}"] = 3
    #expect(values[Self.composed] == 3 && values[Self.decomposed] == 2)
  }

  @Test func equalKeysHashEqualHoweverTheyWereMade() {
    let joined = BlobKey(["some", "key", "longer than a small string"].joined(separator: "/"))
    let literal: BlobKey = "some/key/longer than a small string"
    #expect(joined == literal)
    #expect(joined.hashValue == literal.hashValue)
  }

  /// Keys are compared by words, and every byte of every length counts.
  @Test func everyByteCounts() {
    for length in 1...34 {
      let bytes = (0..<length).map { UInt8(ascii: "a") + UInt8($0 % 26) }
      let key = BlobKey(String(decoding: bytes, as: UTF8.self))
      #expect(key == BlobKey(String(decoding: bytes, as: UTF8.self)))
      #expect(key != BlobKey(String(decoding: bytes.dropLast(), as: UTF8.self)))
      for position in bytes.indices {
        var others = bytes
        others[position] ^= 1
        #expect(key != BlobKey(String(decoding: others, as: UTF8.self)))
      }
    }
  }

  @Test func prefixesAreComparedAsBytes() {
    #expect(Self.decomposed.hasPrefix("cafe"))
    #expect(!Self.composed.hasPrefix("cafe"))
    #expect(!Self.composed.hasPrefix("cafe\u{301}"))
    #expect(Self.composed.hasPrefix(""))
    #expect(!BlobKey("a").hasPrefix("ab"))
  }

  @Test func keysReadAsTheirText() {
    let size = 64
    let key: BlobKey = "image/\(size)"
    #expect(key.string == "image/64")
    #expect("\(key)" == "image/64")
  }
}
