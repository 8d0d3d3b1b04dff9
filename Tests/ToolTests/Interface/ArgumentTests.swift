import Foundation
import TestSupport
import Testing

@Suite struct ArgumentTests {
  let tool: Tool

  init() throws {
    tool = try Tool()
  }

  @Test(arguments: [
    ("90", 90), ("90s", 90), ("10m", 600), ("6h", 21600), ("30d", 2_592_000), ("1w", 604_800), ("90m", 5400),
  ])
  func durationsAreRead(text: String, seconds: Int64) async throws {
    let run = try await tool.run("store", "--json", "--ttl", text, "cache", "key")
    #expect(try run.objects().first?["ttl"] == .integer(seconds))
  }

  @Test(arguments: ["", "x", "-1", "1.5h", "1y", "w", "m", "1 m", "+1", "99999999999999999999", "106751991167301d"])
  func whatIsNoDurationIsWrongUsage(text: String) async throws {
    let run = try await tool.run("store", "--ttl=\(text)", "cache", "key")
    #expect(run.status == 64)
    #expect(try tool.directory.names() == [])
  }

  @Test(arguments: [
    ("1700000000", 1_700_000_000), ("2023-11-14T22:13:20Z", 1_700_000_000),
    ("2023-11-14T23:13:20.75+01:00", 1_700_000_000), ("2023-11-14T22:13:20", 1_700_000_000),
    ("2023-11-14", 1_699_920_000), ("2024-02-29", 1_709_164_800),
  ])
  func timesAreRead(text: String, seconds: Int64) async throws {
    #expect(try await tool.run("store", "--now", text, "cache", "key", now: nil).status == 0)
    let record = try await tool.run("list", "--json", "cache", now: 0).objects().first
    #expect(record?["updateTime"] == .integer(seconds))
  }

  @Test(arguments: [
    "", "now", "2023-02-29", "2023-11-14T24:00:00Z", "2023-11-14T22:13:20Zz", "14.11.2023", "1e9", "-5", "-0", "+5",
    "1969-12-31", "1969-12-31T23:59:59Z", "9223372036854775808",
  ])
  func whatIsNoTimeIsWrongUsage(text: String) async throws {
    #expect(try await tool.run("store", "--now=\(text)", "cache", "key", now: nil).status == 64)
    #expect(try tool.directory.names() == [])
  }

  @Test func aValueMayBeginWithADash() async throws {
    for key in ["-x", "x"] { try await tool.store("1", for: key) }
    #expect(try await tool.run("list", "--json", "--prefix=-x", "cache").objects().map { $0["key"] } == ["-x"])
    #expect(try await tool.run("list", "--json", "--prefix", "-x", "cache").objects().map { $0["key"] } == ["-x"])
  }

  @Test func aLowDefaultIsRaisedWithAWarning() async throws {
    try await tool.store("1", for: "key")
    let run = try await tool.run("list", "--json", "--default-ttl", "5s", "cache", now: Tool.now + 60)
    #expect(run.error == "blobcache: a default expiration of 5.0 seconds is raised to 60.0 seconds\n")
    #expect(try run.objects().first?["expiresAt"] == .integer(Tool.now + 60))
    #expect(try await tool.run("list", "--quiet", "--default-ttl", "5s", "cache").error == "")
  }

  @Test func aDefaultOfNeverEndsNoLife() async throws {
    try await tool.store("1", for: "key")
    let later = Tool.now + 1_000_000
    let list = try await tool.run("list", "--json", "--default-ttl", "never", "cache", now: later)
    #expect(try list.objects().map { $0["state"] } == ["live"])
    let collection = try await tool.run("collect", "--default-ttl", "never", "cache", now: later)
    #expect(collection.text.contains("0 expired"))
    let other = try await tool.run(
      "collect", "cache", now: later, environment: ["BLOBCACHE_DEFAULT_TTL": "never"])
    #expect(other.text.contains("0 expired"))
  }

  @Test func flatRecordsLieInTheDirectory() async throws {
    try tool.storeFiles()
    try await tool.store("1", for: "key", "--flat")
    #expect(try tool.directory.names(in: "cache").contains("key"))
    #expect(try await tool.run("load", "--flat", "cache", "key").status == 0)
    #expect(try await tool.run("load", "cache", "key").status == 1)
  }

  @Test func argumentsThatAreNotUTF8AreWrongUsage() async throws {
    let wrapper = ["sh", "-c", #"exec "$0" "$@" "$(printf 'a\377b')""#]
    let run = try await tool.run("store", "cache", wrapper: wrapper)
    #expect(run.status == 64)
    #expect(run.error.hasPrefix("Error: Argument 5 is not UTF-8.\nUsage: blobcache "), "\(run.error)")
  }

  @Test(arguments: [
    "..", ".", "a/b", "../../etc/passwd", "/", ".hidden", "-x", "--help", "a\nb", "\u{1B}[31mred", "%", "é",
  ])
  func anyKeyCanBeGiven(key: String) async throws {
    try await tool.store("payload of \(key)", for: key)
    #expect(try tool.directory.names() == ["cache"])
    #expect(try await tool.run("load", "--", "cache", key).text == "payload of \(key)")
    let list = try await tool.run("list", "--json", "cache").objects()
    #expect(list.map { $0["key"] } == [.string(key)])
    #expect(try await tool.run("remove", "--quiet", "--", "cache", key).status == 0)
  }

  @Test func controlCharactersAreNotPrintedToPeople() async throws {
    let key = "\u{1B}[2Jkey\u{7F}\u{9B}\n\u{202E}"
    try await tool.store("1", for: key)
    for arguments in [["list", "cache"], ["lock", "cache", key], ["dump", "cache"], ["load", "cache", key + "x"]] {
      let run = try await tool.run(arguments: arguments)
      let printed = (run.text + run.error).unicodeScalars
      #expect(printed.allSatisfy { $0 == "\n" || ($0.value >= 0x20 && !(0x7F...0x9F).contains($0.value)) })
      #expect((run.text + run.error).contains("\\u{1B}[2Jkey\\u{7F}\\u{9B}\\n\\u{202E}"))
    }
  }

  @Test func aKeyThatIsTooLongIsToldOfAnotherNaming() async throws {
    let key = String(repeating: "k", count: 300)
    let run = try await tool.run("store", "--naming", "verbatim", "shared", key)
    #expect(run.status == 2)
    #expect(run.error.contains("the encoded naming"))
    #expect(try await tool.run("store", "cache", key).status == 0)
    #expect(try await tool.run("store", "cache", "").status == 2)
    let longest = try await tool.run("store", "cache", String(repeating: "k", count: 65_537))
    #expect(longest.status == 2 && longest.error.contains("the sha256 naming"))
  }
}
