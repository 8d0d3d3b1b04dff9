import BlobStore
import Foundation
import SystemPackage
import TestSupport
import Testing

/// `configure`, and the effect of the settings on other subcommands.
@Suite(.timeLimit(.minutes(30))) struct ConfigureTests {
  let tool: Tool

  init() throws {
    tool = try Tool()
    try FileManager.default.createDirectory(
      at: tool.directory.url("cache"), withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
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
        ["eviction", "frequency", "built in"], ["naming", "encoded", "built in"], ["layout", "adaptive", "built in"],
        ["packing", "off", "built in"],
      ])
    let objects = try await configure("--json").objects()
    #expect(objects.map { $0["name"] }.count == 8)
    #expect(objects.first { $0["name"] == "size-limit" }?["value"] == 2_147_483_648)
    #expect(objects.first { $0["name"] == "size-limit" }?["source"] == "directory")
  }

  @Test func aProgramsHintComesAfterTheDirectory() async throws {
    try await tool.store("12345", for: "key")
    let objects = try await configure("--json").objects()
    #expect(
      objects.allSatisfy { $0["source"] == ($0["name"] == "layout" ? "directory" : "built in") })
  }

  /// I1a to I1c: a new directory packs nothing, and follows its settings once they contain packing.
  @Test func aDirectoryIsPackedOnlyOnRequest() async throws {
    func packing() async throws -> [JSONValue?] {
      let row = try await configure("--json").objects().first { $0["name"] == "packing" }
      return [row?["value"], row?["source"]]
    }
    #expect(try await packing() == ["off", "built in"])
    try await tool.store("12345", for: "key")
    #expect(try await packing() == ["off", "built in"])
    #expect(try !tool.directory.names(in: "cache").contains(".packs"))
    #expect(try await configure("--packing", "8KiB", "--quiet").status == 0)
    #expect(try await packing() == [8192, "directory"])
    try await tool.store("12345", for: "key")
    #expect(try tool.directory.names(in: "cache/.packs").contains("p-0"))
    // A program that uses the library follows the settings.
    let store = try BlobStore(directory: FilePath(tool.directory.url("cache").path))
    try store.store(Data("67890".utf8), for: "other")
    #expect(try store.records().map(\.file) == [".packs/p-0", ".packs/p-0"])
    #expect(try await tool.run("load", "cache", "other", now: nil).text == "67890")
    #expect(try await configure("--packing", "off", "--quiet").status == 0)
    let again = try await tool.run("store", "cache", "other", now: nil, input: Data("54321".utf8))
    #expect(again.status == 0)
    #expect(try store.load("other")?.payload == Data("54321".utf8))
    #expect(try store.records().map(\.file).filter { $0.hasSuffix("/other") }.count == 1)
    #expect(try await configure("--reset").status == 0)
    #expect(try await packing() == ["off", "built in"])
  }

  /// N5c to N5e: the layout of a new directory, of a directory after its first blob, and of existing directories.
  @Test func aNewDirectoryIsAdaptiveFromItsFirstBlobOn() async throws {
    func layout() async throws -> [JSONValue?] {
      let row = try await configure("--json").objects().first { $0["name"] == "layout" }
      return [row?["value"], row?["source"]]
    }
    #expect(try await layout() == ["adaptive", "built in"])
    #expect(try tool.directory.names(in: "cache") == [])
    try tool.create("cache/ke/key")
    #expect(try await layout() == ["prefix", "records"])
    try FileManager.default.removeItem(at: tool.directory.url("cache/ke"))
    // The blob is too large for a pack.
    let blob = String(repeating: "12345", count: 2000)
    try await tool.store(blob, for: "foobar")
    #expect(try tool.directory.names(in: "cache/v") == ["foobar"])
    #expect(try await layout() == ["adaptive", "directory"])
    #expect(try await configure("--reset").status == 0)
    #expect(try await layout() == ["adaptive", "directory"])
    #expect(try await tool.run("load", "cache", "foobar").text == blob)
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

  @Test(arguments: [("frequency", "used"), ("oldest", "newer")])
  func theEvictionOfADirectoryNeedsNoFlag(eviction: String, kept: String) async throws {
    // The limit admits all three records, because a store beyond it would start an eviction that ends later.
    #expect(try await configure("--count-limit", "3", "--eviction", eviction, "--quiet").status == 0)
    let rows = try await configure("--json").objects()
    #expect(rows.first { $0["name"] == "eviction" }?["value"] == .string(eviction))
    #expect(rows.first { $0["name"] == "eviction" }?["source"] == "directory")
    for (key, time) in [("used", 0), ("new", 10), ("newer", 20)] as [(String, Int64)] {
      let run = try await tool.run(
        "store", "cache", key, "--ttl", "1h", now: Tool.now + time, input: Data("12345".utf8))
      #expect(run.status == 0, "\(run.error)")
      guard key == "used" else { continue }
      for _ in 0..<4 { #expect(try await tool.run("load", "cache", "used").text == "12345") }
    }
    // An eviction lowers the count to nine tenths of the limit of two records, which leaves one.
    #expect(try await configure("--count-limit", "2", "--quiet").status == 0)
    #expect(try await tool.run("collect", "cache", now: Tool.now + 30).status == 0)
    let listed = try await tool.run("list", "cache", "--json", now: Tool.now + 30).objects()
    #expect(listed.map { $0["key"] } == [.string(kept)])
  }

  @Test func theEnvironmentComesBeforeTheDirectorysEviction() async throws {
    #expect(try await configure("--eviction", "oldest", "--quiet").status == 0)
    let rows = try await configure("--json", environment: ["BLOBCACHE_EVICTION": "frequency"]).objects()
    #expect(rows.first { $0["name"] == "eviction" }?["value"] == "frequency")
    #expect(rows.first { $0["name"] == "eviction" }?["source"] == "environment (for collect)")
  }

  @Test(arguments: [true, false])
  func changesOfManyProcessesAllSurvive(isUsed: Bool) async throws {
    if isUsed { try await tool.store("12345", for: "key") }
    let options = [
      ["--size-limit", "1MB"], ["--count-limit", "7"], ["--default-ttl", "never"], ["--keep-free", "0"],
      ["--eviction", "oldest"], ["--naming", "encoded"], ["--layout", "adaptive"],
      ["--packing", "8KiB"],
    ]
    let runs = try await withThrowingTaskGroup(of: Tool.Run.self) { group in
      for option in options {
        group.addTask { [tool] in try await tool.run(arguments: ["configure", "cache", "--quiet"] + option, now: nil) }
      }
      return try await group.reduce(into: []) { $0.append($1) }
    }
    for run in runs { #expect(run.status == 0, "\(run.error)") }
    let rows = try await configure("--json").objects()
    #expect(rows.allSatisfy { $0["source"] == "directory" }, "\(rows)")
  }

  @Test func smallBlobsArePackedWhereTheDirectorySaysSo() async throws {
    #expect(try await configure("--packing", "8KiB", "--quiet").status == 0)
    try await tool.store("12345", for: "small")
    try await tool.store(String(repeating: "1", count: 9000), for: "large")
    let packed = try tool.directory.names(in: "cache/.packs").sorted()
    #expect(packed == ["index", "p-0"])
    #expect(try await tool.run("load", "cache", "small").text == "12345")
    #expect(try await configure("--packing", "off", "--quiet").status == 0)
    #expect(try await tool.run("load", "cache", "small").text == "12345")
  }

  @Test func whatTheOriginalLibraryReadsIsNeverPacked() async throws {
    let run = try await configure("--naming", "verbatim", "--packing", "8KiB")
    #expect(run.status == 2)
    #expect(run.error.contains("verbatim"), "\(run.error)")
  }

  @Test(arguments: ["0", "33000", "often"]) func aWrongBoundIsAUsageError(bound: String) async throws {
    #expect(try await configure("--packing", bound).status == 64)
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

  @Test func aSpreadDirectoryNeedsNoFlagEither() async throws {
    #expect(try await configure("--layout", "spread", "--packing", "off").status == 0)
    try await tool.store("12345", for: "foobar")
    #expect(try tool.directory.names(in: "cache/v8") == ["foobar"])
    for flags in [[], ["--no-flat"]] {
      #expect(try await tool.run(arguments: ["load", "cache", "foobar"] + flags).text == "12345")
    }
    let listed = try await tool.run("list", "cache", "--prefix", "foo", "--json")
    #expect(try listed.objects().map { $0["key"] } == ["foobar"])
    #expect(try await configure("--layout", "prefix").status == 2)
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
    ["--default-ttl", "0"], ["--layout", "tree"], ["--naming", "plain"], ["--keep-free", "none"],
    ["--eviction", "newest"],
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
