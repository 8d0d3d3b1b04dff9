import BlobRecord
import TestSupport
import Testing

@Suite struct RecordLayoutTests {
  static let separated = RecordLayout()
  static let flat = RecordLayout(separatesDirectories: false)
  static let spread = RecordLayout(arrangement: .spread)
  static let adaptive = RecordLayout(arrangement: .adaptive)

  /// The digest of `foobar` is 0x85944171F73967E8, whose low ten bits are the digits `v8`.
  @Test(arguments: ["v8", "v"]) func anAdaptiveDirectoryHasTwoPlaces(subdirectory: String) throws {
    let path = try #require(Self.adaptive.path(ofFileName: "foobar", in: subdirectory))
    #expect(path.subdirectory == subdirectory)
    #expect(path.placed(isNarrow: true).relative == "v/foobar")
    #expect(path.placed(isNarrow: false).relative == "v8/foobar")
    #expect(path.placed(isNarrow: true).placed(by: .adaptive).relative == "v/foobar")
    #expect(path.placed(by: .spread).relative == "v8/foobar")
    #expect(Self.adaptive.isSubdirectory(subdirectory))
    let (name, place) = (Array("foobar".utf8), Array(subdirectory.utf8))
    let isPlain = Self.adaptive.isPlain(fileName: name.span, digest: path.digest, in: place.span)
    #expect(isPlain)
    let isPlainIfSpread = Self.spread.isPlain(fileName: name.span, digest: path.digest, in: place.span)
    #expect(isPlainIfSpread == (subdirectory == "v8"))
    #expect((Self.spread.path(ofFileName: "foobar", in: subdirectory) != nil) == (subdirectory == "v8"))
  }

  @Test(arguments: ["", "8", "u", "V", "w", "v9", "u8", "v8v", "v8v8"])
  func anAdaptiveDirectoryHasNoOtherPlace(subdirectory: String) {
    #expect(Self.adaptive.path(ofFileName: "foobar", in: subdirectory) == nil)
    let (name, place) = (Array("foobar".utf8), Array(subdirectory.utf8))
    let digest = NameDigest.digest(ofFileName: "foobar")
    let isPlain = Self.adaptive.isPlain(fileName: name.span, digest: digest, in: place.span)
    #expect(!isPlain)
  }

  @Test(arguments: ["", "w", "V", "é", "-", "8w", "888"]) func otherNamesAreNoAdaptiveSubdirectories(name: String) {
    #expect(!Self.adaptive.isSubdirectory(name))
  }

  @Test func theDefaultIsEncodedAndSeparated() {
    #expect(RecordLayout() == RecordLayout(naming: .encoded, separatesDirectories: true))
    #expect(RecordLayout() == RecordLayout(naming: .encoded, arrangement: .prefix))
  }

  /// Separating an arrangement that is already separated changes nothing.
  @Test(arguments: RecordArrangement.allCases) func separationKeepsTheArrangementWhereItCan(before: RecordArrangement) {
    var layout = RecordLayout(arrangement: before)
    #expect(layout.separatesDirectories == (before != .flat))
    layout.separatesDirectories = true
    #expect(layout.arrangement == (before == .flat ? .prefix : before))
    layout.separatesDirectories = false
    #expect(layout.arrangement == .flat)
  }

  @Test(
    arguments: [
      ("foobar", "v8/foobar"), ("a/b", "lv/a%2Fb"), ("a", "4c/a"), ("é", "g1/é"),
    ])
  func spreadRecordsLieWhereTheirDigestsSay(key: String, relative: String) throws {
    let path = try Self.spread.path(for: BlobKey(key))
    #expect(path.relative == relative)
    #expect(Self.spread.isSubdirectory(path.subdirectory))
    #expect(Self.spread.subdirectory(ofFileName: path.fileName) == path.subdirectory)
    #expect(Self.spread.path(ofFileName: path.fileName, in: path.subdirectory) == path)
    for other in ["", "00", "fo", path.fileName] {
      #expect(Self.spread.path(ofFileName: path.fileName, in: other) == nil)
    }
  }

  @Test func theLowTenBitsNameTheSubdirectory() {
    var names: Set<String> = []
    for bits in UInt64(0)..<1024 {
      let name = (bits < 32 ? "0" : "") + String(bits, radix: 32)
      #expect(SpreadSubdirectory(bits | 0xFFFF_FC00).name == name)
      #expect(SpreadSubdirectory(bits | 1 << 10).name == name)
      #expect(Self.spread.isSubdirectory(name))
      names.insert(name)
    }
    #expect(names.count == 1024)
  }

  @Test(arguments: ["", "a", "A0", "0A", "w0", "0w", "V8", "/0", ":0", "000", "é", ".0", "日"])
  func otherNamesAreNoSubdirectoriesOfDigests(name: String) {
    #expect(!Self.spread.isSubdirectory(name))
  }

  @Test func beginningsTellTheSubdirectoryOfPrefixesAlone() {
    #expect(Self.separated.subdirectory(ofFileNamesBeginning: "abc") == "ab")
    #expect(Self.spread.subdirectory(ofFileNamesBeginning: "abc") == "")
    #expect(Self.separated.mayHold(fileNamesBeginning: "a", in: "ab"))
    #expect(!Self.separated.mayHold(fileNamesBeginning: "b", in: "ab"))
    #expect(Self.spread.mayHold(fileNamesBeginning: "b", in: "a0"))
  }

  @Test(
    arguments: [
      ("a", ""),
      ("é", ""),
      ("日", ""),
      ("\u{FFFF}", ""),
      ("ab", "ab"),
      ("abc", "ab"),
      ("日本語", "日本"),
      ("e\u{301}", "e\u{301}"),
      ("e\u{301}x", "e\u{301}"),
      ("\u{E9}x", "\u{E9}x"),
      // A scalar above U+FFFF has two units: it fills the name, and is not split after one unit.
      ("😀", "😀"),
      ("😀a", "😀"),
      ("a😀", "a😀"),
      ("a😀b", "a😀"),
      ("ab😀", "ab"),
      ("%2Fa", "%2"),
      ("a%2F", "a%"),
    ])
  func subdirectoriesAreTwoUnitsRoundedUpToScalars(fileName: String, subdirectory: String) {
    #expect(Self.separated.subdirectory(ofFileName: fileName).utf8.elementsEqual(subdirectory.utf8))
    #expect(Self.flat.subdirectory(ofFileName: fileName) == "")
  }

  @Test(
    arguments: [
      ("x", "x"), ("/", "%2/%2F"), (".", "%2/%2E"), ("..", "%2/%2E."), ("ab", "ab/ab"), ("a/b", "a%/a%2Fb"),
      ("😀", "😀/😀"),
    ])
  func pathsAreSubdirectoryAndName(key: String, relative: String) throws {
    #expect(try Self.separated.path(for: BlobKey(key)).relative == relative)
  }

  @Test func aFlatPathIsTheName() throws {
    let path = try Self.flat.path(for: "a/b")
    #expect(path.subdirectory == "" && path.fileName == "a%2Fb" && path.relative == "a%2Fb")
  }

  @Test func theDigestIsOfTheFileName() throws {
    #expect(try Self.separated.path(for: "foobar").digest == 0x8594_4171_f739_67e8)
    #expect(try Self.separated.path(for: "a/b").digest == NameDigest.digest(ofFileName: "a%2Fb"))
  }

  @Test(
    arguments: [
      ("", RecordNaming.encoded, KeyError.empty), ("a/b", .verbatim, .notVerbatim(byte: 0x2F)), ("", .sha256, .empty),
    ])
  func keysWithoutANameHaveNoPath(key: String, naming: RecordNaming, error: KeyError) {
    #expect(throws: error) { try RecordLayout(naming: naming).path(for: BlobKey(key)) }
  }

  @Test(
    arguments: [
      ("abc", "ab", true), ("abc", "", false), ("abc", "abc", false), ("abc", "AB", false), ("abc", "xy", false),
      ("a", "", true), ("a", "a", false), ("😀", "😀", true), ("a%2Fb", "a%", true), ("a%2fb", "a%", false),
      ("\u{E9}x", "\u{E9}x", true), ("\u{E9}x", "e\u{301}", false), (".abc", ".a", false), ("", "", false),
    ])
  func filesElsewhereAreForeign(fileName: String, subdirectory: String, isRecord: Bool) throws {
    let path = Self.separated.path(ofFileName: fileName, in: subdirectory)
    #expect((path != nil) == isRecord)
    if let path {
      let key = try #require(RecordNaming.encoded.key(ofFileName: fileName))
      #expect(try path == Self.separated.path(for: key))
    }
  }

  @Test func flatFilesLieAtTheRootOnly() {
    #expect(Self.flat.path(ofFileName: "abc", in: "") != nil)
    #expect(Self.flat.path(ofFileName: "abc", in: "ab") == nil)
  }

  /// Every name that the quick check accepts is a record's; a name that it rejects may still be one.
  @Test(
    arguments: [
      ("abc", "ab", true, false), ("abc", "", false, true), ("abc", "xy", false, false), (".abc", ".a", false, false),
      ("a%2Fb", "", false, true), ("a%2Fb", "a%", true, false), ("%2Ehidden", "%2", true, false),
      ("%00", "%0", true, false), ("a%7F", "a%", true, false), ("a%2fb", "a%", false, false),
      ("a%2Eb", "a%", false, false),
      ("%41b", "%4", false, false), ("a%", "a%", false, false), ("ab%2", "ab", false, false),
      ("a%%", "a%", false, false),
      ("a%C3", "a%", false, false), ("a", "", false, false), ("a\n", "", false, false),
    ])
  func whatIsPlainIsARecord(fileName: String, subdirectory: String, isSeparated: Bool, isFlat: Bool) {
    for (layout, isPlain) in [(Self.separated, isSeparated), (Self.flat, isFlat)] {
      let (name, place) = (Array(fileName.utf8), Array(subdirectory.utf8))
      let digest = NameDigest.digest(ofFileName: fileName)
      #expect(layout.isPlain(fileName: name.span, digest: digest, in: place.span) == isPlain)
      if isPlain { #expect(layout.path(ofFileName: fileName, in: subdirectory) != nil) }
    }
  }

  /// For names without escapes, the quick check leaves percent signs to the full check.
  @Test(arguments: [RecordNaming.verbatim, .sha256]) func aGlanceTakesNoPercentSign(naming: RecordNaming) {
    let layout = RecordLayout(naming: naming, arrangement: .flat)
    let (name, place) = (Array("a%2Fb".utf8), [UInt8]())
    let digest = NameDigest.digest(ofFileName: "a%2Fb")
    let isPlain = layout.isPlain(fileName: name.span, digest: digest, in: place.span)
    #expect(!isPlain)
  }

  /// For long names, too, the quick check never accepts a name that the full check rejects.
  @Test func aGlanceAtALongNameIsRight() throws {
    let seed = SeededGenerator.announcedSeed(for: "aGlanceAtALongNameIsRight")
    var generator = SeededGenerator(seed: seed)
    let layout = RecordLayout(arrangement: .flat)
    func isPlain(_ name: String) -> Bool {
      layout.isPlain(fileName: Array(name.utf8).span, digest: NameDigest.digest(ofFileName: name), in: [UInt8]().span)
    }
    for _ in 0..<200 {
      let length = Int.random(in: 180...300, using: &generator)
      let key = (0..<length).map { _ in ["a", "/", "%", "."].randomElement(using: &generator)! }.joined()
      let name = try RecordNaming.encoded.fileName(for: BlobKey(key))
      #expect(isPlain(name), "seed \(seed), \(name)")
      var bytes = Array(name.utf8)
      bytes[Int.random(in: 0..<bytes.count, using: &generator)] = [0x25, 0x7E, 0x41, 0x32, 0x2E, 0x47]
        .randomElement(using: &generator)!
      let other = String(decoding: bytes, as: UTF8.self)
      if isPlain(other) { #expect(RecordNaming.encoded.accepts(fileName: other), "seed \(seed), \(other)") }
    }
  }

  @Test(arguments: [("v8", true), ("v9", false), ("u8", false), ("e8", false), ("", false), ("v80", false)])
  func whatIsPlainInASpreadLayoutIsARecord(subdirectory: String, isPlain: Bool) {
    let (name, place) = (Array("foobar".utf8), Array(subdirectory.utf8))
    let digest = NameDigest.digest(ofFileName: "foobar")
    #expect(Self.spread.isPlain(fileName: name.span, digest: digest, in: place.span) == isPlain)
  }

  @Test(
    arguments: [
      ("ab", true), ("%2", true), ("a%", true), ("%0", true), ("%1", true), ("%7", true), ("😀", true), ("a😀", true),
      ("日本", true), ("e\u{301}", true), ("  ", true),
      ("", false), ("a", false), ("abc", false), ("😀a", false), (".a", false), ("..", false), (".quarantine", false),
      // No encoded name begins with these characters.
      ("%%", false), ("%3", false), ("%A", false), ("%a", false), ("a\n", false), ("a\u{7F}", false),
    ])
  func onlyBeginningsOfNamesAreSubdirectories(name: String, isSubdirectory: Bool) {
    #expect(Self.separated.isSubdirectory(name) == isSubdirectory)
    #expect(!Self.flat.isSubdirectory(name))
  }

  @Test(
    arguments: [
      ("ab", true), ("%%", true), ("a\n", true), (".a", false), ("a", false),
    ])
  func verbatimSubdirectoriesAreBeginningsOfKeys(name: String, isSubdirectory: Bool) {
    #expect(RecordLayout(naming: .verbatim).isSubdirectory(name) == isSubdirectory)
  }

  @Test(
    arguments: [
      ("ab", true), ("09", true), ("AB", false), ("ag", false), ("zz", false), ("a", false), ("abc", false),
    ])
  func sha256SubdirectoriesAreTwoDigits(name: String, isSubdirectory: Bool) {
    #expect(RecordLayout(naming: .sha256).isSubdirectory(name) == isSubdirectory)
  }

  /// A name at the root has fewer than two units and a subdirectory has at least two, so they never collide.
  @Test(arguments: RecordNaming.allCases) func everyPathIsFoundAgain(naming: RecordNaming) {
    let seed = SeededGenerator.announcedSeed(for: "everyPathIsFoundAgain(\(naming))")
    var generator = SeededGenerator(seed: seed)
    let layout = RecordLayout(naming: naming)
    var wrong: [String] = []
    for _ in 0..<3000 {
      let key = RecordNamingTests.randomKey(using: &generator)
      guard let path = try? layout.path(for: BlobKey(key)) else { continue }
      let isPlaced =
        path.subdirectory.isEmpty
        ? path.fileName.utf16.count < 2
        : layout.isSubdirectory(path.subdirectory)
          && (2...3).contains(path.subdirectory.utf16.count)
          && path.fileName.utf8.starts(with: path.subdirectory.utf8)
      if !isPlaced || layout.path(ofFileName: path.fileName, in: path.subdirectory) != path {
        wrong.append("\(key.unicodeScalars.map(\.value))")
      }
    }
    #expect(wrong.isEmpty, "seed \(seed)")
  }
}
