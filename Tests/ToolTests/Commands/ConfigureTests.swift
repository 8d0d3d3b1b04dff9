import Foundation
import TestSupport
import Testing

/// `configure`, and what other subcommands make of the settings.
@Suite(.timeLimit(.minutes(10))) struct ConfigureTests {
  let tool: Tool

  init() throws {
    tool = try Tool()
    try FileManager.default.createDirectory(at: tool.directory.url("cache"), withIntermediateDirectories: true)
  }

  private func configure(_ options: String..., environment: [String: String] = [:]) async throws -> Tool.Run {
    try await tool.run(arguments: ["configure", "cache"] + options, now: nil, environment: environment)
  }

  @Test func withoutOptionsItTellsWhatHoldsAndWhy() async throws {
    #expect(try await configure("--size-limit", "2G", "--default-ttl", "1w", "--quiet").text == "")
    let run = try await configure(environment: ["BLOBCACHE_COUNT_LIMIT": "12"])
    #expect(run.status == 0, "\(run.error)")
    let rows = run.text.split(separator: "\n").map { $0.split(separator: /[ ]{2,}/).map(String.init) }
    #expect(
      rows == [
        ["default-ttl", "7d", "directory"], ["size-limit", "2147483648 bytes", "directory"],
        ["count-limit", "12", "environment (for collect)"], ["keep-free", "a tenth, 4GiB at most", "built in"],
        ["naming", "encoded", "built in"], ["layout", "prefix", "built in"],
      ])
    let objects = try await configure("--json").objects()
    #expect(objects.map { $0["name"] }.count == 6)
    #expect(objects.first { $0["name"] == "size-limit" }?["value"] == 2_147_483_648)
    #expect(objects.first { $0["name"] == "size-limit" }?["source"] == "directory")
  }

  @Test func aProgramsHintComesAfterTheDirectory() async throws {
    try await tool.store("12345", for: "key")
    let objects = try await configure("--json").objects()
    #expect(objects.allSatisfy { $0["source"] == "built in" })
  }

  @Test func blobsWithoutATimeToLiveLastAsTheDirectorySays() async throws {
    #expect(try await configure("--default-ttl", "1w").status == 0)
    try await tool.store("12345", for: "key")
    let later = Tool.now + 3600
    let collected = try await tool.run("collect", "cache", "--json", now: later)
    #expect(try collected.objects().first?["expired"] == 0)
    #expect(try await tool.run("load", "cache", "key", "--no-touch", now: later).text == "12345")
    let explicit = try await tool.run("collect", "cache", "--json", "--default-ttl", "10m", now: later)
    #expect(try explicit.objects().first?["expired"] == 1)
  }

  @Test func theSizeLimitOfADirectoryNeedsNoFlag() async throws {
    for key in ["a1", "b2", "c3"] { try await tool.store(String(repeating: "x", count: 1000), for: key) }
    #expect(try await configure("--size-limit", "2KB", "--keep-free", "0").status == 0)
    let run = try await tool.run("collect", "cache", "--json")
    #expect(try run.objects().first?["evicted"] == 2, "\(run.error)")
    let other = try await tool.run("collect", "cache", "--json", environment: ["BLOBCACHE_SIZE_LIMIT": "1000"])
    #expect(try other.objects().first?["evicted"] == 1)
  }

  @Test func theLayoutOfADirectoryNeedsNoFlag() async throws {
    #expect(try await configure("--layout", "flat", "--naming", "verbatim").status == 0)
    try await tool.store("12345", for: "100%")
    #expect(try tool.directory.names(in: "cache").contains("100%"))
    let wrong = try await tool.run("load", "--no-flat", "cache", "100%")
    #expect(wrong.status == 2)
    #expect(wrong.error.contains("without --naming and --flat"), "\(wrong.error)")
    let mixed = try await configure("--layout", "prefix")
    #expect(mixed.status == 2)
    #expect(mixed.error.contains("keep their layout"), "\(mixed.error)")
  }

  @Test func aDamagedFileStopsEverySubcommand() async throws {
    #expect(try await configure("--size-limit", "1MB").status == 0)
    try tool.damage("cache/.blobcache.conf", at: 14)
    for arguments in [
      ["list", "cache"], ["usage", "cache"], ["collect", "cache"], ["load", "cache", "key"], ["configure", "cache"],
      ["remove", "cache", "--all"], ["verify", "cache"], ["configure", "cache", "--count-limit", "3"],
    ] {
      let run = try await tool.run(arguments: arguments, now: nil)
      #expect(run.status == 2, "\(arguments)")
      #expect(run.error.contains("cache/.blobcache.conf"), "\(run.error)")
      #expect(run.error.contains("--reset"), "\(run.error)")
    }
    #expect(try await configure("--reset").status == 0)
    #expect(try await tool.run("list", "cache").status == 0)
  }

  @Test func aRemovalOfAllLeavesTheSettings() async throws {
    #expect(try await configure("--size-limit", "1MB").status == 0)
    try await tool.store("12345", for: "key")
    #expect(try await tool.run("remove", "cache", "--all").status == 0)
    #expect(try tool.directory.names(in: "cache").contains(".blobcache.conf"))
  }

  @Test(arguments: [
    ["--size-limit", "0"], ["--size-limit", "many"], ["--count-limit", "-1"], ["--default-ttl", "59s"],
    ["--default-ttl", "0"], ["--layout", "spread"], ["--naming", "plain"], ["--keep-free", "none"],
  ])
  func wrongValuesAreWrongUsage(options: [String]) async throws {
    let run = try await tool.run(arguments: ["configure", "cache"] + options, now: nil)
    #expect(run.status == 64, "\(run.error)")
    #expect(try tool.directory.names(in: "cache") == [])
  }

  @Test func anAbsentDirectoryIsNotMade() async throws {
    let run = try await tool.run("configure", "missing", "--size-limit", "1MB", now: nil)
    #expect(run.status == 2)
    #expect(run.error.contains("missing"))
  }
}
