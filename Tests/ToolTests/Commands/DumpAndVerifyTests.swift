import Foundation
import TestSupport
import Testing

@Suite struct DumpAndVerifyTests {
  let tool: Tool

  init() throws {
    tool = try Tool(storesFiles: true)
  }

  private func verdicts(_ record: [String: JSONValue]) -> [String: String] {
    guard case .array(let fields)? = record["fields"] else { return [:] }
    var verdicts: [String: String] = [:]
    for case .object(let field) in fields {
      guard case .string(let name)? = field["name"], case .string(let verdict)? = field["verdict"] else { continue }
      if case .string(let error)? = field["error"] {
        verdicts[name] = error
      } else {
        verdicts[name] = verdict
      }
    }
    return verdicts
  }

  @Test func aSoundRecordIsShownFieldByField() async throws {
    try await tool.store("{\"a\":1}", for: "key", "--ttl", "10m")
    let run = try await tool.run("dump", "--hex", "cache/7c/key", now: Tool.now + 60)
    #expect(run.status == 0)
    for text in [
      "  key       key\n", "  state     live\n", "  expiry    2023-11-14T22:23:20Z (in 9m)\n",
      "  payload   7 bytes, seems to be JSON\n", "  verdict   sound\n",
      "       0     4  magic             0x46545053          SPTF                                ok\n",
      "      16     8  ttl               0x0000000000000258  10m                                 ok\n",
      "      24     8  updateTimeSec     0x000000006553F100  2023-11-14T22:13:20Z (1m ago)       ok\n",
      "  00  53 50 54 46              magic\n", "  20  07 00 00 00 00 00 00 00  payloadSizeBytes\n",
    ] {
      #expect(run.text.contains(text), "\(run.text)")
    }
  }

  @Test func everyFieldIsInTheJSON() async throws {
    try await tool.store("12345", for: "key", "--locked")
    let run = try await tool.run("dump", "--json", "cache/7c/key")
    let record = try #require(try run.objects().first)
    #expect(record["type"] == "record")
    #expect(record["state"] == "locked")
    #expect(record["payloadKind"] == "text")
    #expect(record["fileSize"] == 69)
    #expect(verdicts(record).count == 12)
    #expect(Set(verdicts(record).values) == ["ok"])
  }

  @Test(arguments: [
    (0, "magic", "magicMismatch"), (62, "crc", "invalidHeaderCRC"), (66, "reserved3", "payloadChecksumMismatch"),
  ])
  func whatIsWrongIsSaidOfItsField(offset: Int, field: String, error: String) async throws {
    try await tool.store("12345", for: "key")
    try tool.damage("cache/7c/key", at: offset)
    let run = try await tool.run("dump", "--json", "cache/7c/key")
    #expect(run.status == 1)
    let record = try #require(try run.objects().first)
    #expect(record["state"] == "damaged")
    #expect(record["error"] == .string(error))
    #expect(verdicts(record)[field] == error)
    #expect(try await tool.run("dump", "cache/7c/key").text.contains(error))
  }

  /// A payload that a load would not read is not compared, and not reported as different.
  @Test func theChecksumOfATruncatedPayloadIsNotCompared() async throws {
    try await tool.store("12345", for: "key")
    let file = try FileHandle(forUpdating: tool.directory.url("cache/7c/key"))
    try file.truncate(atOffset: 66)
    try file.close()
    let run = try await tool.run("dump", "--json", "cache/7c/key")
    #expect(run.status == 1)
    let record = try #require(try run.objects().first)
    #expect(record["error"] == "wrongPayloadSize")
    #expect(verdicts(record)["reserved3"] == "unusual")
    #expect(try await tool.run("dump", "cache/7c/key").text.contains("not compared with the payload"))
  }

  @Test func aRecordMayLieOutsideACache() async throws {
    try await tool.store("12345", for: "key")
    try tool.create("backup/x")
    try FileManager.default.copyItem(at: tool.directory.url("cache/7c/key"), to: tool.directory.url("backup/key"))
    try FileManager.default.copyItem(at: tool.directory.url("cache/7c/key"), to: tool.directory.url("backup/other"))
    #expect(try await tool.run("dump", "backup/key").status == 0)
    let moved = try await tool.run("dump", "--json", "backup/other")
    #expect(moved.status == 1)
    #expect(try moved.objects().first?["error"] == "keyMismatch")
  }

  @Test func aDirectoryIsEveryRecordBelowIt() async throws {
    for key in ["a", "bc", "def"] { try await tool.store("1", for: key) }
    try tool.create("cache/al/short", "short")
    let run = try await tool.run("dump", "--json", "cache")
    #expect(run.status == 1)
    #expect(Set(try run.objects().map { $0["file"] }) == ["4c/a", "ri/bc", "6c/def", "al/short"])
    let short = try #require(try run.objects().first { $0["key"] == "short" })
    #expect(short["fields"] == .array([]))
    #expect(try await tool.run("dump", "--hex", "cache").text.contains("  00  73 68 6F 72              magic\n"))
  }

  @Test func whatIsNoRecordFileCannotBeDumped() async throws {
    try await tool.store("12345", for: "key")
    let run = try await tool.run("dump", "--json", "missing", "cache/7c/key", "/dev/null")
    #expect(run.status == 2)
    #expect(try run.objects().count == 1)
    #expect(run.error.split(separator: "\n").count == 2)
  }

  @Test func aSoundDirectoryVerifies() async throws {
    try await tool.store("12345", for: "key")
    try tool.create("cache/foreign/file")
    try tool.create("cache/7c/.tmp-1")
    let run = try await tool.run("verify", "--json", "cache")
    #expect(run.status == 0)
    let objects = try run.objects()
    #expect(objects.contains(["type": "foreign", "file": "foreign"]))
    #expect(objects.contains(["type": "temporary", "file": "7c/.tmp-1"]))
    #expect(
      objects.last == [
        "type": "verification", "directory": "cache", "soundRecords": 1, "damagedFiles": 0, "unreadableFiles": 0,
        "temporaryFiles": 1, "foreignFiles": 1, "bytes": 69, "repairedFiles": 0,
        "foreignRecords": 0, "foreignRecordBytes": 0, "foreignRecordUser": .null,
        "stampedAhead": 0,
      ])
  }

  @Test func everyKindOfDamageIsFound() async throws {
    // The key `moved-1015` would be stored in the same subdirectory as `moved`.
    for key in ["payload", "header", "moved", "sound", "cut"] { try await tool.store("12345", for: key) }
    try tool.damage("cache/f5/payload", at: 64)
    try tool.damage("cache/b0/header", at: 10)
    try FileManager.default.moveItem(
      at: tool.directory.url("cache/jg/moved"), to: tool.directory.url("cache/jg/moved-1015"))
    let cut = try FileHandle(forWritingTo: tool.directory.url("cache/n3/cut"))
    try cut.truncate(atOffset: 68)
    try cut.close()
    let run = try await tool.run("verify", "--json", "cache", now: Tool.now + 10_000)
    #expect(run.status == 1)
    let objects = try run.objects().dropLast()
    #expect(
      Set(objects.map { [$0["key"], $0["error"], $0["code"]] }) == [
        ["payload", "payloadChecksumMismatch", 108], ["header", "invalidHeaderCRC", 104],
        ["moved-1015", "keyMismatch", 109], ["cut", "wrongPayloadSize", 103],
      ])
    let text = try await tool.run("verify", "cache").text
    #expect(text.contains("damaged    b0/header: invalidHeaderCRC"))
    #expect(text.hasSuffix("cache: 1 sound, 4 damaged, 0 unreadable; 0 temporary, 0 foreign; 344 B checked\n"))
  }
}
