import Foundation
import TestSupport
import Testing

@Suite struct CollectTests {
  let tool: Tool

  init() throws {
    tool = try Tool(storesFiles: true)
  }

  @Test func aPassIsReported() async throws {
    try await tool.store("12345", for: "expired", "--ttl", "1m")
    try await tool.store("12345", for: "live", "--ttl", "1d")
    let dry = try await tool.run("collect", "--dry-run", "--json", "cache", now: Tool.now + 100)
    #expect(dry.status == 0)
    var report = try #require(try dry.objects().first)
    #expect(report.removeValue(forKey: "seconds") != nil)
    #expect(
      report == [
        "type": "collection", "directory": "cache", "examined": 2, "expired": 1, "evicted": 0, "damaged": 0,
        "temporary": 0, "bytesFreed": 69, "bytesAfter": 69, "dryRun": true, "subdirectories": 1, "failed": 0,
        "wasCutShort": false, "wasStopped": false, "recordsAfter": 1, "recycled": 0, "recycledBytesFreed": 0,
        "recycledBytesAfter": 0, "busy": 0,
        "foreignRecords": 0, "foreignRecordBytes": 0, "foreignRecordUser": .null,
        "stampedAhead": 0,
      ])
    #expect(try await tool.run("collect", "cache", now: Tool.now + 100).text.hasPrefix("cache: 2 examined, 1 expired"))
    #expect(try await tool.run("usage", "--json", "cache").objects().first?["records"] == 1)
  }

  /// A mistyped path removes no file, and does not make a directory look like a cache.
  @Test func whatMayBeNoCacheIsRefused() async throws {
    try tool.create("home/no/notes.txt", "buy milk")
    let later = Tool.now + 1_000_000_000
    for options in [[], ["--dry-run"], ["--empty-bin"]] {
      let run = try await tool.run(arguments: ["collect"] + options + ["home"], now: later)
      #expect(run.status == 2)
      #expect(run.error.contains("may be no cache"))
    }
    #expect(try tool.directory.names(in: "home") == ["no"])
    #expect(try tool.directory.names(in: "home/no") == ["notes.txt"])
  }

  @Test func aSizeLimitEvicts() async throws {
    for i in 0..<10 {
      let run = try await tool.run("store", "cache", "key\(i)", now: Tool.now + Int64(i), input: Data(count: 936))
      #expect(run.status == 0)
    }
    let run = try await tool.run("collect", "--size-limit", "5KB", "--json", "cache", now: Tool.now + 10)
    #expect(try run.objects().first?["bytesAfter"] == 4000)
    #expect(try await tool.run("load", "cache", "key9").status == 0)
    #expect(try await tool.run("load", "cache", "key0").status == 1)
  }

  @Test func aDirectoryThatFailsDoesNotStopTheOthers() async throws {
    try await tool.store("1", for: "key")
    try tool.create("file")
    let run = try await tool.run("collect", "--json", "missing", "file", "cache", "--max-time", "1m")
    #expect(run.status == 2)
    #expect(try run.objects().map { $0["directory"] } == ["cache"])
    #expect(run.error.contains("missing"))
    #expect(run.error.contains("Not a directory"))
  }

  @Test(arguments: ["0", "x", "-1", "10 MB", "9223372036854775807KB", "1kb", "MB", "2g", "B"])
  func whatIsNoSizeIsWrongUsage(size: String) async throws {
    try await tool.store("1", for: "key")
    #expect(try await tool.run("collect", "--size-limit=\(size)", "cache").status == 64)
  }

  @Test(arguments: ["1", "4096", "1KB", "1KiB", "1K", "10MB", "512MiB", "2G", "2GB", "2GiB", "8TB", "8TiB", "8T"])
  func sizesAreRead(size: String) async throws {
    try await tool.store("1", for: "key")
    #expect(try await tool.run("collect", "--size-limit", size, "cache").status == 0)
  }

  @Test func aLimitThatLocksMakeImpossibleIsSaidToStayExceeded() async throws {
    for key in ["a", "b"] { try await tool.store(String(repeating: "x", count: 936), for: key, "--locked") }
    try await tool.store("1", for: "c")
    let run = try await tool.run("collect", "--size-limit", "1KB", "cache")
    #expect(run.status == 1)
    #expect(run.text.hasPrefix("cache: 3 examined, 0 expired, 1 evicted"))
    #expect(
      run.error
        == "blobcache: cache: 2.0 KB stay, above the size limit of 1.0 KB: 2.0 KB in 2 locked records are never evicted; "
        + "unlock or remove some, or raise the limit\n")
    let count = try await tool.run("collect", "--count-limit", "1", "cache")
    #expect(count.status == 1)
    #expect(count.error.contains("2 records stay, above the count limit of 1: 2 locked records are never evicted"))
    #expect(try await tool.run("collect", "--size-limit", "2KB", "cache").status == 0)
  }

  @Test func theWholeOfADryRunThatWouldNotKeepTheLimit() async throws {
    try await tool.store("1", for: "a", "--locked")
    let run = try await tool.run("collect", "--dry-run", "--size-limit", "10", "cache")
    #expect(run.status == 1)
    #expect(run.error.hasPrefix("blobcache: cache: 65 B would stay, above the size limit of 10 B: "), "\(run.error)")
  }
}
