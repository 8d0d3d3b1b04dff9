import BlobRecord
import Foundation
import TestSupport
import Testing

@Suite struct RecordNamingTests {
  /// Compares bytes, because `String ==` would treat both forms of é as equal.
  static func isSame(_ a: String, _ b: String) -> Bool { a.utf8.elementsEqual(b.utf8) }

  // MARK: Encoded

  @Test(
    arguments: [
      ("a", "a"),
      ("plain-name_0.png", "plain-name_0.png"),
      ("with spaces", "with spaces"),
      (" ", " "),
      ("a.b..", "a.b.."),
      ("/", "%2F"),
      ("a/b", "a%2Fb"),
      ("https://example.com/a?b=c&d", "https:%2F%2Fexample.com%2Fa?b=c&d"),
      (".", "%2E"),
      ("..", "%2E."),
      ("../../etc/passwd", "%2E.%2F..%2Fetc%2Fpasswd"),
      (".hidden", "%2Ehidden"),
      ("/.", "%2F."),
      ("%", "%25"),
      ("100%", "100%25"),
      ("%2F", "%252F"),
      ("%2f", "%252f"),
      ("\u{0}", "%00"),
      ("a\u{0}b", "a%00b"),
      ("tab\tnewline\n", "tab%09newline%0A"),
      ("\u{1F}\u{20}", "%1F "),
      ("\u{7F}", "%7F"),
      ("\u{80}", "\u{80}"),
      ("\\:*?\"<>|", "\\:*?\"<>|"),
      ("caf\u{E9}", "caf\u{E9}"),
      ("cafe\u{301}", "cafe\u{301}"),
      ("日本語", "日本語"),
      ("😀", "😀"),
      ("👨‍👩‍👧/🇸🇪", "👨‍👩‍👧%2F🇸🇪"),
    ])
  func encodedNamesTellTheirKeys(key: String, name: String) throws {
    let found = try RecordNaming.encoded.fileName(for: BlobKey(key))
    #expect(Self.isSame(found, name))
    #expect(RecordNaming.encoded.accepts(fileName: name))
    #expect(RecordNaming.encoded.key(ofFileName: name) == BlobKey(key))
  }

  @Test(arguments: UInt8(0)..<0x80) func exactlyTheListedBytesAreEscaped(byte: UInt8) throws {
    let character = String(UnicodeScalar(byte))
    let hexadecimal = String(byte, radix: 16, uppercase: true)
    let escape = "%" + (byte < 16 ? "0" : "") + hexadecimal
    let isEscaped = byte < 0x20 || byte == 0x7F || character == "/" || character == "%"
    #expect(try RecordNaming.encoded.fileName(for: BlobKey("x" + character)) == "x" + (isEscaped ? escape : character))
    // A name with the raw byte, or with an unnecessary escape, belongs to no key.
    #expect(RecordNaming.encoded.accepts(fileName: "x" + character) == !isEscaped)
    #expect(RecordNaming.encoded.accepts(fileName: "x" + escape) == isEscaped)
    // Keys are checked eight bytes at a time, so the position and the neighbours of the byte must not matter.
    for (length, neighbour) in product(2...20, ["x", "\u{7E}", "\u{20}", "\u{80}", "\u{FF}"]) {
      for place in 1..<length {
        let before = String(repeating: neighbour, count: place)
        let after = String(repeating: neighbour, count: length - place - 1)
        let name = try RecordNaming.encoded.fileName(for: BlobKey(before + character + after))
        #expect(Self.isSame(name, before + (isEscaped ? escape : character) + after))
      }
    }
  }

  private func product<First, Second>(_ first: some Sequence<First>, _ second: [Second]) -> [(First, Second)] {
    first.flatMap { element in second.map { (element, $0) } }
  }

  @Test(
    arguments: [
      "", ".", "..", ".hidden", "a/b", "/",
      "a%2fb", "%2ehidden", "%7f",  // lower case
      "%", "a%", "a%2", "%%", "%2G", "%G2", "% 2F", "%+2F", "%-1", "%0x",  // not an escape
      "a%2E", "%61", "%20", "a%2Eb",  // unnecessary escapes
      "%C3%A9", "%FF", "a%80", "%C3", "%ED%A0%80", "%C0%AF",  // escapes above 0x7F, UTF-8 or not
      "a\u{1}b", "a\nb", "\u{7F}",  // control characters that are not escaped
    ])
  func namesThatNoKeyEncodesToAreForeign(name: String) {
    #expect(!RecordNaming.encoded.accepts(fileName: name))
    #expect(RecordNaming.encoded.key(ofFileName: name) == nil)
  }

  // MARK: Verbatim

  @Test(arguments: ["a", "a b", "100%", "%2F", "caf\u{E9}", "cafe\u{301}", "x.", "a\tb", "\u{7F}", "😀", "da39a3ee"])
  func verbatimNamesAreTheKeys(key: String) throws {
    let found = try RecordNaming.verbatim.fileName(for: BlobKey(key))
    #expect(Self.isSame(found, key))
    #expect(RecordNaming.verbatim.key(ofFileName: key) == BlobKey(key))
  }

  @Test(
    arguments: [
      ("/", 0x2F), ("a/b", 0x2F), ("a\u{0}/", 0), ("\u{0}", 0), (".", 0x2E), ("..", 0x2E), (".a", 0x2E), ("./a", 0x2E),
    ] as [(String, UInt8)])
  func verbatimNamingRefusesWhatIsNoFileName(key: String, byte: UInt8) {
    #expect(throws: KeyError.notVerbatim(byte: byte)) { try RecordNaming.verbatim.fileName(for: BlobKey(key)) }
    #expect(!RecordNaming.verbatim.accepts(fileName: key))
    #expect(RecordNaming.verbatim.key(ofFileName: key) == nil)
  }

  // MARK: SHA-256

  @Test(
    arguments: [
      ("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
      ("caf\u{E9}", "850f7dc43910ff890f8879c0ed26fe697c93a067ad93a7d50f466a7028a9bf4e"),
    ])
  func sha256NamesAreTheDigests(key: String, name: String) throws {
    #expect(try RecordNaming.sha256.fileName(for: BlobKey(key)) == name)
    #expect(RecordNaming.sha256.accepts(fileName: name))
    #expect(RecordNaming.sha256.key(ofFileName: name) == nil)
  }

  @Test(
    arguments: [
      "", "abc", String(repeating: "a", count: 63), String(repeating: "a", count: 65),
      String(repeating: "A", count: 64), String(repeating: "g", count: 64), String(repeating: "é", count: 32),
    ])
  func otherNamesAreNoSHA256(name: String) {
    #expect(!RecordNaming.sha256.accepts(fileName: name))
  }

  @Test func sha256TakesKeysOfAnyLength() throws {
    let key = BlobKey(String(repeating: "long/", count: 100_000))
    #expect(try RecordNaming.sha256.fileName(for: key).utf8.count == 64)
  }

  // MARK: All

  @Test(arguments: RecordNaming.allCases) func theEmptyKeyHasNoName(naming: RecordNaming) {
    #expect(throws: KeyError.empty) { try naming.fileName(for: "") }
    #expect(!naming.accepts(fileName: ""))
    #expect(naming.key(ofFileName: "") == nil)
  }

  @Test(arguments: RecordNaming.allCases) func bothFormsOfAnAccentAreTwoNames(naming: RecordNaming) throws {
    let composed = try naming.fileName(for: "caf\u{E9}")
    let decomposed = try naming.fileName(for: "cafe\u{301}")
    #expect(!Self.isSame(composed, decomposed))
  }

  @Test(arguments: [RecordNaming.encoded, .verbatim]) func keysAreNamesUpTo255Bytes(naming: RecordNaming) throws {
    let longest = String(repeating: "a", count: 255)
    #expect(try naming.fileName(for: BlobKey(longest)) == longest)
    #expect(naming.key(ofFileName: longest) == BlobKey(longest))

    if naming == .verbatim {
      #expect(throws: KeyError.tooLong(byteCount: 256)) { try naming.fileName(for: BlobKey(longest + "a")) }
    } else {
      #expect(try naming.keepsKey(ofFileName: naming.fileName(for: BlobKey(longest + "a"))))
    }
    #expect(!naming.accepts(fileName: longest + "a"))
    #expect(naming.key(ofFileName: longest + "a") == nil)

    let accents = String(repeating: "é", count: 127)
    #expect(try naming.fileName(for: BlobKey(accents + "a")).utf8.count == 255)
    let isTooLong = (try? naming.fileName(for: BlobKey(accents + "aa"))) == nil
    #expect(isTooLong == (naming == .verbatim))
  }

  @Test func theLimitIsOnTheNameAfterEscaping() throws {
    let longest = String(repeating: "/", count: 85)
    #expect(try RecordNaming.encoded.fileName(for: BlobKey(longest)).utf8.count == 255)
    for key in [longest + "a", "." + String(repeating: "a", count: 253)] {
      let name = try RecordNaming.encoded.fileName(for: BlobKey(key))
      #expect(RecordNaming.encoded.keepsKey(ofFileName: name))
    }
  }

  @Test func errorsSayWhatToDo() {
    #expect(KeyError.empty.description == "the key is empty, and a key has one character at least")
    #expect(KeyError.tooLong(byteCount: 300).description.contains("encoded"))
    #expect(KeyError.notVerbatim(byte: 0x2F).description.contains("0x2F"))
    #expect(KeyError.notListable.description.contains("sha256"))
  }

  // MARK: Prefixes

  @Test(
    arguments: [
      ("", ""), ("ab", "ab"), ("a/", "a%2F"), (".", "%2E"), ("%", "%25"), ("caf", "caf"),
    ])
  func prefixesOfKeysAreThoseOfNames(prefix: String, namePrefix: String) throws {
    #expect(try RecordNaming.encoded.fileNamePrefix(forKeyPrefix: prefix) == namePrefix)
  }

  @Test func verbatimPrefixesAreRefusedLikeKeys() throws {
    #expect(try RecordNaming.verbatim.fileNamePrefix(forKeyPrefix: "") == "")
    #expect(try RecordNaming.verbatim.fileNamePrefix(forKeyPrefix: "a%") == "a%")
    #expect(throws: KeyError.notVerbatim(byte: 0x2F)) { try RecordNaming.verbatim.fileNamePrefix(forKeyPrefix: "a/") }
  }

  @Test func sha256NamesTellNoPrefixes() throws {
    #expect(try RecordNaming.sha256.fileNamePrefix(forKeyPrefix: "") == "")
    #expect(try RecordNaming.sha256.fileNamePrefix(forKeyPrefix: "a") == "")
  }

  // MARK: Properties

  /// Returns a key of special characters: separators, dots, escapes, controls, both forms of accents, wide scalars.
  static func randomKey(using generator: inout SeededGenerator) -> String {
    let awkward: [UnicodeScalar] = [
      "/", "%", ".", "2", "F", "E", "5", "0", " ", "a", "\u{0}", "\u{1}", "\n", "\u{1F}", "\u{7F}", "\u{80}", "\u{E9}",
      "\u{301}", "\u{FFFD}", "\u{FFFF}", "\u{10000}", "\u{1F600}", "\u{10FFFF}", "\u{FEFF}", "\u{202E}",
    ]
    var key = String.UnicodeScalarView()
    for _ in 0..<Int.random(in: 1...20, using: &generator) {
      let scalar =
        Bool.random(using: &generator)
        ? awkward.randomElement(using: &generator)
        : UnicodeScalar(UInt32.random(in: 0...0x10FFFF, using: &generator))
      if let scalar { key.append(scalar) }
    }
    return key.isEmpty ? "/" : String(key)
  }

  @Test func everyKeyComesBackFromANameThatIsSafe() {
    let seed = SeededGenerator.announcedSeed(for: "everyKeyComesBackFromANameThatIsSafe")
    var generator = SeededGenerator(seed: seed)
    var wrong: [String] = []
    var names: [BlobKey: BlobKey] = [:]
    for _ in 0..<5000 {
      let key = BlobKey(Self.randomKey(using: &generator))
      do throws(KeyError) {
        let name = try RecordNaming.encoded.fileName(for: key)
        let bytes = Array(name.utf8)
        let isSafe =
          !bytes.isEmpty && bytes.count <= 255 && bytes[0] != 0x2E
          && bytes.allSatisfy { $0 != 0x2F && $0 >= 0x20 && $0 != 0x7F }
        let prefix = String(key.string.unicodeScalars.prefix(Int.random(in: 0...4, using: &generator)))
        let namePrefix = try RecordNaming.encoded.fileNamePrefix(forKeyPrefix: prefix)
        if !isSafe || RecordNaming.encoded.key(ofFileName: name) != key || !BlobKey(name).hasPrefix(namePrefix)
          || names.updateValue(key, forKey: BlobKey(name)) ?? key != key
        {
          wrong.append("\(key.string.unicodeScalars.map(\.value)) as \(name)")
        }
      } catch {
        wrong.append("\(key.string.unicodeScalars.map(\.value)): \(error)")
      }
    }
    #expect(wrong.isEmpty, "seed \(seed)")
  }

  /// A name is accepted if and only if it is the encoding of a key.
  @Test func everyAcceptedNameIsItsKeysOwn() {
    let seed = SeededGenerator.announcedSeed(for: "everyAcceptedNameIsItsKeysOwn")
    var generator = SeededGenerator(seed: seed)
    var wrong: [String] = []
    var accepted = 0
    for naming in [RecordNaming.encoded, .verbatim] {
      for _ in 0..<5000 {
        let name = Self.randomKey(using: &generator)
        guard let key = naming.key(ofFileName: name) else { continue }
        accepted += 1
        if let again = try? naming.fileName(for: key), Self.isSame(again, name) { continue }
        wrong.append("\(naming) \(name.unicodeScalars.map(\.value))")
      }
    }
    #expect(accepted > 100, "seed \(seed)")
    #expect(wrong.isEmpty, "seed \(seed)")
  }
}
