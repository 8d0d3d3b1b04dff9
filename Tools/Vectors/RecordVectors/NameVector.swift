internal import BlobRecord

/// A key under one naming, with its expected file name and subdirectory, or the expected error.
struct NameVector {
  enum Expectation {
    case name(String, subdirectory: String)
    case error(String)
  }

  var naming: RecordNaming
  var key: String
  var expectation: Expectation

  var manifestEntry: JSONText {
    let start: [(String, JSONText)] = [("naming", .string(naming.rawValue)), ("key", .string(key))]
    switch expectation {
    case .name(let fileName, let subdirectory):
      let digest = NameDigest.digest(ofFileName: fileName)
      return .object(
        start + [
          ("fileName", .string(fileName)), ("subdirectory", .string(subdirectory)),
          ("spreadSubdirectory", .string(Self.spreadSubdirectory(of: digest))), ("digest", .hexadecimal(digest)),
          ("stripe", .number(digest % 4096)),
        ])
    case .error(let error):
      return .object(start + [("error", .string(error))])
    }
  }

  private static func spreadSubdirectory(of digest: UInt64) -> String {
    let text = String(digest % 1024, radix: 32)
    return text.count < 2 ? "0" + text : text
  }

  static let all: [NameVector] =
    [
      ("foobar", "foobar", "fo"),
      ("a", "a", ""),
      ("\u{E9}", "\u{E9}", ""),
      ("\u{1F600}", "\u{1F600}", "\u{1F600}"),
      ("a\u{1F600}b", "a\u{1F600}b", "a\u{1F600}"),
      ("ab\u{1F600}", "ab\u{1F600}", "ab"),
      ("caf\u{E9}", "caf\u{E9}", "ca"),
      ("cafe\u{301}", "cafe\u{301}", "ca"),
      ("e\u{301}t\u{E9}", "e\u{301}t\u{E9}", "e\u{301}"),
      ("two words", "two words", "tw"),
      (" ", " ", ""),
      ("100%", "100%25", "10"),
      ("%2F", "%252F", "%2"),
      ("%2f", "%252f", "%2"),
      ("/", "%2F", "%2"),
      ("a/b", "a%2Fb", "a%"),
      (".", "%2E", "%2"),
      ("..", "%2E.", "%2"),
      ("a.b", "a.b", "a."),
      ("\u{0}", "%00", "%0"),
      ("\u{1F}", "%1F", "%1"),
      ("\u{7F}", "%7F", "%7"),
      ("\u{80}x", "\u{80}x", "\u{80}x"),
      (String(repeating: "a", count: 255), String(repeating: "a", count: 255), "aa"),
      (String(repeating: "/", count: 85), String(repeating: "%2F", count: 85), "%2"),
    ].map { NameVector(naming: .encoded, key: $0, expectation: .name($1, subdirectory: $2)) }
    + longNames
    + [
      ("", "empty")
    ].map { NameVector(naming: .encoded, key: $0, expectation: .error($1)) }
    + [
      ("100%", "100%", "10"),
      ("%2F", "%2F", "%2"),
      ("\u{1F}\u{7F}", "\u{1F}\u{7F}", "\u{1F}\u{7F}"),
      ("caf\u{E9}", "caf\u{E9}", "ca"),
      ("da39a3ee5e6b4b0d3255bfef95601890afd80709", "da39a3ee5e6b4b0d3255bfef95601890afd80709", "da"),
    ].map { NameVector(naming: .verbatim, key: $0, expectation: .name($1, subdirectory: $2)) }
    + [
      ("", "empty"), ("a/b", "notVerbatim"), (".a", "notVerbatim"), ("a\u{0}", "notVerbatim"),
      (String(repeating: "a", count: 256), "tooLong"),
    ].map { NameVector(naming: .verbatim, key: $0, expectation: .error($1)) }
    + [
      ("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", "ba"),
      (String(repeating: "a", count: 256), "02d7160d77e18c6447be80c2e355c7ed4388545271702c50253b0914c65ce5fe", "02"),
    ].map { NameVector(naming: .sha256, key: $0, expectation: .name($1, subdirectory: $2)) }
    + [NameVector(naming: .sha256, key: "", expectation: .error("empty"))]
}

extension NameVector {
  /// Keys whose encoded names are too long and are cut. The digests at their ends were computed with `sha256sum`.
  private static let longNames = [
    (
      String(repeating: "a", count: 256),
      String(repeating: "a", count: 189) + "%~02d7160d77e18c6447be80c2e355c7ed4388545271702c50253b0914c65ce5fe", "aa"
    ),
    (
      String(repeating: "/", count: 86),
      String(repeating: "%2F", count: 63) + "%~8253e1c020580e56b673e08d1b2b8a23ba4bbe623a949fb96a50b086c1b44913", "%2"
    ),
    (
      String(repeating: "a", count: 188) + String(repeating: "\u{E9}", count: 50),
      String(repeating: "a", count: 188) + "%~8a5db77855c98b71ad8ce1ac2a3173d5c66591ba729f69bd62e1bd34aa3b6cf5", "aa"
    ),
  ].map { NameVector(naming: .encoded, key: $0, expectation: .name($1, subdirectory: $2)) }
}

/// A file name that is not the name of any key under a naming.
struct ForeignName {
  var naming: RecordNaming
  var fileName: String

  var manifestEntry: JSONText {
    .object([("naming", .string(naming.rawValue)), ("fileName", .string(fileName))])
  }

  static let all: [ForeignName] =
    [
      ".hidden", "a%2fb", "a%", "a%2", "%%", "%G0",
      "a%~02d7160d77e18c6447be80c2e355c7ed4388545271702c50253b0914c65ce5fe", "%61", "a%2E", "%C3%A9", "%FF", "a\u{1}b",
      "a\u{7F}",
    ].map { ForeignName(naming: .encoded, fileName: $0) }
    + [".hidden"].map { ForeignName(naming: .verbatim, fileName: $0) }
    + [
      "abc", "BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AD",
      "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015a",
      "ga7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
    ].map { ForeignName(naming: .sha256, fileName: $0) }
}
