import Foundation
import TestSupport
import Testing

@Suite struct ListAndUsageTests {
  let tool: Tool

  init() throws {
    tool = try Tool(storesFiles: true)
  }

  /// Stores one record of every state; the expiring ones have expired at `later`.
  private func fill() async throws {
    try await tool.store("12345", for: "live", "--ttl", "1d")
    try await tool.store("1", for: "expired", "--ttl", "1m")
    try await tool.store("1", for: "locked", "--ttl", "1m", "--locked")
    try await tool.store("1", for: "damaged", "--ttl", "7s")
    try tool.damage("cache/tc/damaged", at: 56)
  }

  private let later = Tool.now + 3600

  @Test(arguments: [
    ("live", ["live", "locked"]), ("expired", ["expired"]), ("locked", ["locked"]), ("damaged", ["damaged"]),
    ("all", ["damaged", "expired", "live", "locked"]),
  ])
  func statesSelect(state: String, keys: [String]) async throws {
    try await fill()
    let run = try await tool.run("list", "--json", "--state", state, "cache", now: later)
    #expect(run.status == 0)
    #expect(try run.objects().compactMap { $0["key"] }.sorted(by: { "\($0)" < "\($1)" }) == keys.map { .string($0) })
  }

  @Test func theDefaultIsLiveAndTouchesNothing() async throws {
    try await fill()
    let first = try await tool.run("list", "--json", "cache", now: later)
    #expect(try first.objects().count == 2)
    #expect(try await tool.run("list", "--json", "cache", now: later).text == first.text)
  }

  @Test func aRecordHasTheseFields() async throws {
    try await tool.store("12345", for: "live", "--ttl", "1d")
    let run = try await tool.run("list", "--json", "cache")
    #expect(
      run.text.hasPrefix(#"{"type":"record","key":"live","file":"cf/live","state":"live","refCount":0,"ttl":86400"#))
    var record = try #require(try run.objects().first)
    guard case .integer? = record.removeValue(forKey: "crc") else {
      Issue.record("no crc")
      return
    }
    #expect(
      record == [
        "type": "record", "key": "live", "file": "cf/live", "state": "live", "refCount": 0, "ttl": 86400,
        "updateTime": .integer(Tool.now), "payloadSize": 5, "flags": 6, "expiresAt": .integer(Tool.now + 86400),
      ])
  }

  @Test func aDamagedRecordHasItsStoredHeaderAndItsRule() async throws {
    try await fill()
    let record = try #require(try await tool.run("list", "--json", "--state", "damaged", "cache").objects().first)
    #expect(record["error"] == "invalidHeaderCRC")
    #expect(record["code"] == 104)
    #expect(record["ttl"] == 7)
    #expect(record["flags"] == .integer(6 ^ 0xFF))
    #expect(record["expiresAt"] == .null)
  }

  @Test func aShortFileHasNoHeader() async throws {
    try tool.create("cache/sh/short", "too short")
    let record = try #require(try await tool.run("list", "--json", "--state", "all", "cache").objects().first)
    #expect(record["error"] == "notEnoughDataToGetHeader")
    #expect(record["key"] == "short")
    for field in ["refCount", "ttl", "updateTime", "payloadSize", "flags", "crc", "expiresAt"] {
      #expect(record[field] == .null)
    }
  }

  @Test func aLockedRecordExpiresNever() async throws {
    try await fill()
    let record = try #require(
      try await tool.run("list", "--json", "--state", "locked", "cache", now: later).objects().first)
    #expect(record["state"] == "locked")
    #expect(record["expiresAt"] == .null)
  }

  @Test func prefixesSelect() async throws {
    for key in ["a", "ab", "abc", "b"] { try await tool.store("1", for: key) }
    let run = try await tool.run("list", "--json", "--prefix", "ab", "cache")
    #expect(Set(try run.objects().map { $0["key"] }) == ["ab", "abc"])
  }

  @Test func aRecordTellsTheKeyThatADigestHides() async throws {
    for key in ["key", "ab"] { try await tool.store("1", for: key, "--naming", "sha256") }
    let records = try await tool.run("list", "--json", "--naming", "sha256", "cache").objects()
    #expect(Set(records.map { $0["key"] }) == ["key", "ab"])
    let run = try await tool.run("list", "--json", "--naming", "sha256", "--prefix", "a", "cache")
    #expect(try run.objects().map { $0["key"] } == ["ab"])
  }

  @Test func theTableIsAligned() async throws {
    try await fill()
    let run = try await tool.run("list", "--prefix", "l", "--state", "all", "cache", now: later)
    let lines = Set(run.text.split(separator: "\n").map(String.init))
    #expect(
      lines == [
        "STATE    LOCKS      SIZE      TTL  UPDATED                    AGE   EXPIRES  KEY",
        "live         0       5 B       1d  2023-11-14T22:13:20Z    1h ago    in 23h  live",
        "locked       1       1 B       1m  2023-11-14T22:13:20Z    1h ago     never  locked",
      ])
    #expect(try await tool.run("list", "--quiet", "--prefix", "live", "cache").text.hasPrefix("live "))
  }

  @Test func theHeaderComesFirst() async throws {
    try await fill()
    #expect(try await tool.run("list", "cache").text.hasPrefix("STATE"))
  }

  /// L4, C28: a collection with another naming does not change the counters.
  @Test func anotherNamingLeavesTheCounters() async throws {
    try await fill()
    #expect(try await tool.run("collect", "cache").status == 0)
    let file = tool.directory.url("cache/.blobcache")
    let before = try Data(contentsOf: file)
    for options in [[], ["--naming", "sha256"]] {
      #expect(try await tool.run(arguments: ["usage"] + options + ["cache"]).status == 0)
      #expect(try Data(contentsOf: file) == before)
    }
    #expect(try await tool.run("collect", "--naming", "sha256", "cache").status == 0)
    // The bytes contain the counters, and whether they are known.
    #expect(try Data(contentsOf: file)[128..<168] == before[128..<168])
  }

  @Test func usageCountsEverything() async throws {
    try await fill()
    try tool.create("cache/foreign/file")
    try tool.create("cache/cf/.tmp-1", "left behind")
    let run = try await tool.run("usage", "--json", "cache", now: later)
    #expect(run.status == 0)
    #expect(
      try run.objects() == [
        [
          "type": "usage", "records": 3, "bytes": 264, "lockedRecords": 1, "lockedBytes": 65, "expiredRecords": 1,
          "damagedFiles": 1, "temporaryFiles": 1, "foreignFiles": 1, "expiredBytes": 65, "damagedBytes": 65,
          "quarantinedFiles": 0, "quarantinedBytes": 0, "unreadableFiles": 0, "collections": 0, "evictions": 0,
          "collectedExpired": 0, "collectedEvicted": 0, "collectedDamaged": 0, "collectedTemporary": 0,
          "collectedBytes": 0, "collectionSeconds": 0, "lastCollectionAt": .null, "lastCollectionBy": .null,
          "recycledFiles": 0, "recycledBytes": 0,
          "foreignRecords": 0, "foreignRecordBytes": 0, "foreignRecordUser": .null,
          "temporaryBytes": 11, "packedRecords": 0, "packedBytes": 0, "packs": 0, "packMediumBytes": 0,
          "packLiveBytes": 0, "packDeadBytes": 0,
        ]
      ])
    let text = try await tool.run("usage", "cache").text
    #expect(text.contains("records                       3      199 B\n"))
    #expect(text.contains("temporary files               1       11 B\n"))
  }
}
