import BlobRecord
import TestSupport
import Testing

/// Keys whose names would be longer than 255 bytes: Spec/RecordFormat.md 8.
@Suite struct LongNameTests {
  private static let naming = RecordNaming.encoded
  private static let url = "https://example.com/" + String(repeating: "path/", count: 60)

  @Test func aNameIsTheBeginningOfTheKeyAndItsDigest() throws {
    let key = BlobKey(String(repeating: "a", count: 256))
    let name = try Self.naming.fileName(for: key)
    // The SHA-256 digest was computed by `sha256sum`.
    let digest = "02d7160d77e18c6447be80c2e355c7ed4388545271702c50253b0914c65ce5fe"
    #expect(name == String(repeating: "a", count: 189) + "%~" + digest)
    #expect(name.utf8.count == 255)
    #expect(Self.naming.accepts(fileName: name))
    #expect(Self.naming.key(ofFileName: name) == nil)
    #expect(Self.naming.keepsKey(ofFileName: name))
  }

  /// The prefix ends with a complete escape and a complete scalar.
  @Test(
    arguments: [
      (188, "/", 188), (187, "/", 187), (186, "/", 189), (188, "\u{E9}", 188), (187, "\u{E9}", 189),
      (186, "\u{1F600}", 186), (185, "\u{1F600}", 189), (189, "/", 189),
    ])
  func theBeginningIsWhole(before: Int, character: String, expected: Int) throws {
    let key = BlobKey(String(repeating: "a", count: before) + character + String(repeating: "b", count: 200))
    let name = try Self.naming.fileName(for: key)
    #expect(name.utf8.count - 66 == expected)
    #expect(Self.naming.accepts(fileName: name))
    #expect(try RecordLayout().path(for: key).subdirectory == "aa")
  }

  @Test func keysOfOneBeginningHaveNamesOfTheirOwn() throws {
    let names = try (0..<100).map { try Self.naming.fileName(for: BlobKey(Self.url + "\($0)")) }
    #expect(Set(names).count == 100)
  }

  @Test func nothingElseHasSuchAName() throws {
    let digest = String(repeating: "0", count: 64)
    let beginning = String(repeating: "a", count: 189)
    #expect(Self.naming.accepts(fileName: beginning + "%~" + digest))
    let shorter = [1, 3, 4].map { String(beginning.dropLast($0)) }
    for name in [
      "a%~\(digest)", "%~\(digest)", "\(shorter[2])%~\(digest)", "\(beginning)a%~\(digest)",
      "\(beginning)%~\(digest.dropLast())G", "\(shorter[0])%%~\(digest)", "\(shorter[1])%2f%~\(digest)",
      ".\(shorter[0])%~\(digest)",
    ] {
      #expect(!Self.naming.accepts(fileName: name), "\(name)")
      #expect(!Self.naming.keepsKey(ofFileName: name), "\(name)")
    }
    #expect(!RecordNaming.sha256.accepts(fileName: beginning + "%~" + digest))
  }

  @Test func aKeyIsKeptUpTo64KiB() throws {
    let longest = String(repeating: "k", count: 65_536)
    #expect(try Self.naming.fileName(for: BlobKey(longest)).utf8.count == 255)
    #expect(throws: KeyError.longerThanKept(byteCount: 65_537)) {
      try Self.naming.fileName(for: BlobKey(longest + "k"))
    }
    #expect(KeyError.longerThanKept(byteCount: 65_537).description.contains("65536"))
  }

  /// A listing by prefix includes every key with that prefix.
  @Test func namesBeginAsTheirPrefixesDo() throws {
    let seed = SeededGenerator.announcedSeed(for: "namesBeginAsTheirPrefixesDo")
    var generator = SeededGenerator(seed: seed)
    let characters = ["a", "/", "%", "\u{E9}", "\u{1F600}", ".", "\u{1}"]
    for _ in 0..<300 {
      let count = Int.random(in: 60...300, using: &generator)
      let key = (0..<count).map { _ in characters.randomElement(using: &generator)! }.joined()
      let name = try Self.naming.fileName(for: BlobKey(key))
      let scalars = Array(key.unicodeScalars)
      for _ in 0..<20 {
        let end = Int.random(in: 0...scalars.count, using: &generator)
        let prefix = scalars[..<end].map(String.init).joined()
        let beginning = try Self.naming.fileNamePrefix(forKeyPrefix: prefix)
        #expect(name.utf8.starts(with: beginning.utf8), "seed \(seed), \(key.debugDescription), \(end)")
      }
    }
  }
}
