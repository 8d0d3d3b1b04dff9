import Foundation
import TestSupport
import Testing

/// `dump`, `collect --pack`, `collect --unpack`, `list` and `usage` with packed records.
@Suite(.timeLimit(.minutes(30))) struct PackedRecordTests {
  let tool: Tool

  init() throws {
    tool = try Tool()
    try FileManager.default.createDirectory(at: tool.directory.url("cache"), withIntermediateDirectories: true)
  }

  private func configure(_ packing: String) async throws {
    let run = try await tool.run("configure", "cache", "--packing", packing, "--quiet", now: nil)
    #expect(run.status == 0, "\(run.error)")
  }

  /// Returns the files that contain a single record.
  private func recordFiles() throws -> [String] {
    try FileManager.default.subpathsOfDirectory(atPath: tool.directory.url("cache").path)
      .filter { !$0.hasPrefix(".") && $0.contains("/") }
  }

  @Test func aPackedRecordIsDumpedAsItsFileAndWhereItLies() async throws {
    try await configure("8KiB")
    try await tool.store("{\"a\":1}", for: "key", "--ttl", "10m")
    #expect(try recordFiles() == [])
    let run = try await tool.run("dump", "cache", "--key", "key", now: Tool.now + 60)
    #expect(run.status == 0, "\(run.error)")
    for text in [
      "cache/.packs/p-0\n", "  key       key\n", "  state     live\n", "  expiry    2023-11-14T22:23:20Z (in 9m)\n",
      "  packed    pack 0, chunk 0, offset 0, sequence 1\n", "  verdict   sound\n",
      "       0     4  magic             0x46545053          SPTF                                ok\n",
    ] {
      #expect(run.text.contains(text), "\(run.text)")
    }
    let record = try #require(try await tool.run("dump", "--json", "cache", "--key", "key").objects().first)
    #expect(record["type"] == "record")
    #expect(record["file"] == ".packs/p-0")
    #expect(record["fileSize"] == 71)
    #expect([record["pack"], record["chunk"], record["offset"], record["sequence"]] == [0, 0, 0, 1])
    // The listing of all records also contains them.
    let all = try await tool.run("dump", "--json", "cache")
    #expect(all.status == 0)
    #expect(try all.objects() == [record])
    let listed = try #require(try await tool.run("list", "--json", "cache").objects().first)
    #expect(listed["offset"] == 0)
  }

  @Test func aKeyLeadsToAFileToo() async throws {
    try await configure("off")
    try await tool.store("12345", for: "key")
    let record = try #require(try await tool.run("dump", "--json", "cache", "--key", "key").objects().first)
    #expect(record["file"] == "7c/key")
    #expect(record["pack"] == nil)
    let missing = try await tool.run("dump", "cache", "--key", "other")
    #expect(missing.status == 1)
    #expect(missing.error == "blobcache: other: not found\n")
  }

  @Test func aPackIsWalked() async throws {
    try await configure("8KiB")
    for key in ["a", "b", "a"] { try await tool.store(key + "12345", for: key) }
    let run = try await tool.run("dump", "cache/.packs/p-0")
    #expect(run.status == 0, "\(run.error)")
    #expect(run.text.hasPrefix("cache/.packs/p-0\n  pack      number 0, identifier 0x"), "\(run.text)")
    #expect(run.text.contains("  verdict   sound\n"))
    let objects = try await tool.run("dump", "--json", "cache/.packs/p-0").objects()
    let pack = try #require(objects.first)
    #expect([pack["type"], pack["pack"], pack["flaw"]] == ["pack", 0, .null])
    let records = objects.filter { $0["type"] == "packedRecord" }
    #expect(Set(records.map { [$0["key"], $0["state"]] }) == [["a", "dead"], ["a", "live"], ["b", "live"]])
    let chunks = objects.filter { $0["type"] == "chunk" }
    #expect(chunks.allSatisfy { $0["unreadableBytes"] == 0 })
    #expect(run.text.components(separatedBy: "  dead  ").count == 2)
  }

  @Test func damageInAPackIsTold() async throws {
    try await configure("8KiB")
    try await tool.store("12345", for: "key")
    // The third byte of the payload, after header and name.
    try tool.damage("cache/.packs/p-0", at: 2_166_784 + 40 + 3 + 2)
    let pack = try await tool.run("dump", "--json", "cache/.packs/p-0")
    #expect(pack.status == 1)
    #expect(try pack.objects().last?["state"] == "damaged")
    let record = try await tool.run("dump", "--json", "cache", "--key", "key")
    #expect(record.status == 1)
    #expect(try record.objects().first?["error"] == "payloadChecksumMismatch")
    // The head of the pack.
    try tool.damage("cache/.packs/p-0", at: 45)
    let flawed = try await tool.run("dump", "cache/.packs/p-0")
    #expect(flawed.status == 1)
    #expect(flawed.text.contains("its head is damaged"))
  }

  @Test func packingMovesRecordsAndUnpackingMovesThemBack() async throws {
    try await configure("off")
    for number in 0..<20 { try await tool.store("payload \(number)", for: "key\(number)", "--ttl", "1d") }
    try await tool.store("old", for: "old", "--ttl", "1m")
    try await tool.store(String(repeating: "x", count: 9000), for: "large", "--ttl", "1d")
    let later = Tool.now + 100
    let refused = try await tool.run("collect", "--pack", "cache", now: later)
    #expect(refused.status == 2)
    #expect(
      refused.error
        == "blobcache: collect: cache: packing is off; `blobcache configure cache --packing 8KiB` turns it on\n")
    try await configure("8KiB")
    let packed = try await tool.run("collect", "--pack", "--json", "cache", now: later)
    #expect(packed.status == 0, "\(packed.error)")
    var objects = try packed.objects()
    var relocation = try #require(objects.first)
    #expect(relocation.removeValue(forKey: "bytes") != nil)
    #expect(
      relocation == [
        "type": "relocation", "directory": "cache", "operation": "pack", "moved": 20, "unsuited": 1, "expired": 1,
        "damaged": 0, "failed": 0,
      ])
    #expect(objects.last?["expired"] == 1)
    #expect(try recordFiles().count == 1)
    let usage = try #require(try await tool.run("usage", "--json", "cache").objects().first)
    #expect([usage["records"], usage["packedRecords"], usage["packs"]] == [21, 20, 1])
    #expect(usage["packDeadBytes"] == 0)

    let text = try await tool.run("collect", "--unpack", "cache", now: later).text
    #expect(text.hasPrefix("cache: 20 unpacked, "), "\(text)")
    #expect(
      try await tool.run("configure", "cache", "--json", now: nil).objects().contains {
        $0["name"] == "packing" && $0["value"] == "off" && $0["source"] == "directory"
      })
    #expect(try !tool.directory.names(in: "cache").contains(".packs"))
    #expect(try recordFiles().count == 21)
    objects = try await tool.run("usage", "--json", "cache").objects()
    #expect(objects.first?["packedRecords"] == 0)
    for number in 0..<20 {
      #expect(try await tool.run("load", "cache", "key\(number)", now: later).text == "payload \(number)")
    }
  }

  @Test(arguments: [["--pack", "--unpack"], ["--pack", "--dry-run"], ["--unpack", "--every", "5m"]])
  func whatDoesNotFitTogetherIsWrongUsage(options: [String]) async throws {
    #expect(try await tool.run(arguments: ["collect", "cache"] + options, now: nil).status == 64)
  }

  /// Several processes pack, unpack, store, load and remove concurrently. No load returns another key's payload.
  @Test func severalProcessesMoveRecordsAtOnce() async throws {
    try await configure("8KiB")
    let keys = (0..<60).map { "key\($0)" }
    for key in keys { try await tool.store("first of \(key)", for: key) }
    for _ in 0..<3 {
      try await configure("8KiB")
      try await withThrowingTaskGroup(of: Void.self) { group in
        for option in ["--pack", "--unpack", "--pack", "--unpack"] {
          group.addTask {
            let run = try await tool.run("collect", "--wait", option, "cache")
            // The other process disables packing before it moves the first record.
            let isTooLate = option == "--pack" && run.error.contains("packing is off")
            #expect(run.status == 0 || isTooLate, "\(option): \(run.error)")
          }
        }
        group.addTask {
          for key in keys.prefix(10) { try await tool.store("next of \(key)", for: key) }
        }
        group.addTask {
          for key in keys.dropFirst(5).prefix(30) {
            let text = try await tool.run("load", "cache", key).text
            #expect(["first of \(key)", "next of \(key)"].contains(text), "\(key): \(text)")
          }
        }
        try await group.waitForAll()
      }
    }
    for (number, key) in keys.enumerated() {
      #expect(try await tool.run("load", "cache", key).text == (number < 10 ? "next of \(key)" : "first of \(key)"))
    }
    #expect(try await tool.run("verify", "cache").status == 0)
    #expect(try await tool.run("list", "--json", "cache").objects().count == keys.count)
  }

  /// A killed move is continued by the next one.
  @Test(arguments: ["--pack", "--unpack"]) func aMoveThatIsKilledGoesOn(option: String) async throws {
    let keys = (0..<200).map { "key\($0)" }
    try await configure(option == "--pack" ? "off" : "8KiB")
    for key in keys { try tool.create("import/\(key)", "payload of \(key)") }
    let script = "for key in import/*; do \"$1\" store cache \"${key#import/}\" \"$key\" --ttl 1w || exit 1; done"
    #expect(try await tool.execute(["sh", "-c", script, "sh", Tool.executable.path]).status == 0)
    try await configure("8KiB")
    // The processes are killed at different times: early ones have moved nothing, later ones some records.
    for delay in ["0.02", "0.04", "0.06"] {
      let killer = ["sh", "-c", "\"$@\" & sleep \(delay); kill -9 $!; wait", "sh"]
      _ = try await tool.run("collect", option, "cache", now: nil, wrapper: killer)
    }
    let run = try await tool.run("collect", option, "cache", now: nil)
    #expect(run.status == 0, "\(run.error)")
    let usage = try #require(try await tool.run("usage", "--json", "cache", now: nil).objects().first)
    #expect([usage["records"], usage["packedRecords"]] == [200, option == "--pack" ? 200 : 0])
    #expect(try await tool.run("verify", "cache", now: nil).status == 0)
  }
}
