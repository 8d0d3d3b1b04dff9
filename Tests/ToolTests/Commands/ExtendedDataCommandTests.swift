import Foundation
import TestSupport
import Testing

/// extended-data, and the output of other subcommands for records with extended data.
@Suite struct ExtendedDataCommandTests {
  let tool: Tool

  init() throws {
    tool = try Tool()
  }

  @Test func itIsStoredPrintedReplacedAndTakenAway() async throws {
    try await tool.store("payload", for: "key", "--extended-data", "image/png")
    #expect(try await tool.run("extended-data", "cache", "key").text == "image/png")
    #expect(try await tool.run("load", "cache", "key").text == "payload")
    let replaced = try await tool.run("extended-data", "cache", "key", "--set", "text/html")
    #expect(replaced.status == 0 && replaced.text == "key: extended data of 9 B\n")
    #expect(try await tool.run("extended-data", "cache", "key").text == "text/html")
    #expect(try await tool.run("extended-data", "cache", "key", "--clear", "--quiet").text == "")
    let none = try await tool.run("extended-data", "cache", "key")
    #expect(none.status == 0 && none.text == "")
    #expect(try await tool.run("load", "cache", "key").text == "payload")
  }

  @Test func aFileMayHoldIt() async throws {
    let (type, large) = (tool.directory.url("type"), tool.directory.url("large"))
    try Data("a b".utf8).write(to: type)
    try await tool.store("payload", for: "key", "--extended-data", "@" + type.path)
    #expect(try await tool.run("extended-data", "cache", "key").text == "a b")
    try Data(count: 5000).write(to: large)
    let refused = try await tool.run("extended-data", "cache", "key", "--set", "@" + large.path)
    #expect(refused.status == 2 && refused.error.contains("4096"))
    let absent = try await tool.run("extended-data", "cache", "key", "--set", "@absent")
    #expect(absent.status == 2 && absent.error.contains("absent"))
    #expect(try await tool.run("extended-data", "cache", "key").text == "a b")
  }

  @Test func listingsAndDumpsShowIt() async throws {
    let key = "https://example.com/" + String(repeating: "long/", count: 60)
    try await tool.store("payload", for: key, "--extended-data", "image/png")
    try await tool.store("payload", for: "plain")
    let records = try await tool.run("list", "--json", "cache").objects()
    #expect(records.first { $0["key"] == .string(key) }?["extendedData"] == "image/png")
    #expect(records.first { $0["key"] == "plain" }?["extendedData"] == nil)
    #expect(try await tool.run("list", "cache").text.contains("[image/png]"))
    #expect(try await tool.run("list", "--prefix", key, "--json", "cache").objects().count == 1)
    let dump = try await tool.run("dump", "cache").text
    #expect(dump.contains(key) && dump.contains("9 bytes: image/png") && dump.contains("end of the extension"))
    let object = try #require(
      try await tool.run("dump", "--json", "cache").objects().first { $0["key"] == .string(key) })
    #expect(object["extendedData"] == "image/png" && object["flags"] == 14)
  }

  /// Extended data that is not text is reported in base 64, and its bytes are returned unchanged.
  @Test func whatIsNoTextIsTold() async throws {
    let bytes = tool.directory.url("bytes")
    try Data([0xFF, 0, 0x1B]).write(to: bytes)
    try await tool.store("payload", for: "key", "--extended-data", "@" + bytes.path)
    #expect(try await tool.run("extended-data", "cache", "key").output == Data([0xFF, 0, 0x1B]))
    let object = try #require(try await tool.run("extended-data", "--json", "cache", "key").objects().first)
    #expect(object["extendedDataBase64"] == "/wAb")
    #expect(try await tool.run("list", "cache").text.contains("[3 bytes]"))
    // The escape sequence is not sent to the terminal.
    try await tool.store("payload", for: "key", "--extended-data", "\u{1B}[31m")
    #expect(try await tool.run("list", "cache").text.contains("[\\u{1B}[31m]"))
  }

  @Test func absentAndSharedRecordsAreTold() async throws {
    try await tool.store("payload", for: "key")
    let absent = try await tool.run("extended-data", "cache", "missing")
    #expect(absent.status == 1 && absent.error.contains("missing: not found"))
    #expect(try await tool.run("extended-data", "cache", "missing", "--set", "x").status == 1)
    #expect(try await tool.run("extended-data", "cache", "key", "--set", "x", "--clear").status == 64)
    let shared = try await tool.run(
      "store", "shared", "key", "--naming", "verbatim", "--extended-data", "x", input: Data("payload".utf8))
    #expect(shared.status == 2 && shared.error.contains("SPTPersistentCache"))
  }
}
