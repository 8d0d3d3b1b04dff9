import Foundation
import TestSupport
import Testing

/// Messages are for users of the subcommand, and contain no method of the library.
@Suite struct MessageTests {
  let tool: Tool

  init() throws {
    tool = try Tool()
  }

  @Test(arguments: [
    ["list"], ["usage"], ["usage", "--fast"], ["verify"], ["dump"], ["collect"], ["remove", "--all"],
    ["remove", "--locked"],
  ])
  func aFailureIsNamedByTheSubcommand(arguments: [String]) async throws {
    try tool.create("file")
    for directory in ["missing", "file/below"] {
      let run = try await tool.run(arguments: arguments + [directory])
      #expect(run.status == 2)
      #expect(run.error.hasPrefix("blobcache: \(arguments[0]): "), "\(run.error)")
      #expect(run.error.split(separator: "\n").count == 1)
    }
  }

  @Test(arguments: ["load", "touch", "lock", "unlock", "remove"])
  func aFailureWithAKeyNamesIt(subcommand: String) async throws {
    let run = try await tool.run(subcommand, "--json", "missing", "key")
    #expect(run.status == 2)
    #expect(run.error == "blobcache: \(Self.missing(subcommand))\n")
    guard subcommand != "load" else { return }
    #expect(try run.objects().map { $0["message"] } == [.string(Self.missing(subcommand))])
  }

  private static func missing(_ subcommand: String) -> String {
    "\(subcommand) \"key\": there is no such directory: missing; check the path; store and import make a directory"
  }

  @Test func aPathOfNothingIsNamedByTheSubcommand() async throws {
    let run = try await tool.run("list", "")
    #expect(run.status == 2)
    #expect(run.error == "blobcache: list: the directory's path is empty: \n")
  }

  @Test func whatMayBeNoCacheIsNotRemoved() async throws {
    try tool.create("home/no/notes.txt", "buy milk")
    let run = try await tool.run("remove", "--all", "home")
    #expect(run.status == 2)
    #expect(run.error.hasPrefix("blobcache: remove: there is no control file "), "\(run.error)")
  }

  // MARK: - A wrong directory

  @Test(arguments: [["list"], ["usage"], ["verify"], ["collect"], ["remove", "--unlocked"], ["load"]])
  func aDirectoryThatIsNoCacheIsSaidToBeNone(arguments: [String]) async throws {
    try tool.create("documents/README.md", "text")
    let keys = arguments == ["load"] ? ["key"] : []
    let run = try await tool.run(arguments: arguments + ["documents"] + keys)
    #expect(run.status == 1)
    let message = "documents: no cache: other files, but no record and no control file: is the path right, and --flat?"
    #expect(run.error.hasSuffix("blobcache: \(message)\n"), "\(run.error)")
    #expect(try tool.directory.names(in: "documents") == ["README.md"])
  }

  /// A program has used a directory in which it recorded its configuration, also if the control file was not copied.
  @Test func aDirectoryWithARecordedConfigurationIsACache() async throws {
    try tool.create("documents/README.md", "text")
    try tool.create("documents/.blobcache.used", "")
    let run = try await tool.run("list", "documents")
    #expect(run.status == 0)
    #expect(run.error == "")
  }

  @Test(arguments: ["list", "usage", "verify", "collect"])
  func anEmptyDirectoryIsNoFailureAndIsSaidToBeEmpty(subcommand: String) async throws {
    try FileManager.default.createDirectory(at: tool.directory.url("new"), withIntermediateDirectories: false)
    let run = try await tool.run(subcommand, "new")
    #expect(run.status == 0)
    #expect(run.error == "blobcache: new: an empty directory, and no cache yet: is the path right?\n")
    #expect(try await tool.run(subcommand, "--quiet", "new").error == "")
  }

  /// The command `collect` is not included, because it leaves a directory that looks like an empty one.
  @Test(arguments: ["list", "usage", "verify"])
  func aCacheWithoutRecordsIsACache(subcommand: String) async throws {
    try await tool.store("1", for: "key")
    #expect(try await tool.run("remove", "cache", "key").status == 0)
    let run = try await tool.run(subcommand, "cache")
    #expect(run.status == 0)
    #expect(run.error == "")
    // On a file system without shared memory, a cache has no control file.
    try FileManager.default.removeItem(at: tool.directory.url("cache/.blobcache"))
    let bare = try await tool.run(subcommand, "cache")
    #expect(bare.status == 0)
    #expect(bare.error == "")
  }

  // MARK: - Values

  @Test(arguments: [
    (["store", "--ttl", "-5"], "The value '-5' is invalid for '--ttl <d>': it must be a duration of whole seconds"),
    (["store", "--ttl", "soon"], "30d, 1w; never; or 0 for the default"),
    (
      ["list", "--default-ttl", "1y"], "it must be a duration of whole seconds, minutes, hours, days or weeks: 90, 90s"
    ),
    (["list", "--now", "-1"], "it must be a time since 1970: Unix seconds or ISO 8601"),
    (["collect", "--size-limit", "-1"], "it must be a size in whole bytes or units: 4096, 10MB (of 1000), 512KiB"),
    (["collect", "--size-limit", "0"], "2G; above zero"),
    (["collect", "--count-limit", "-3"], "it must be a whole number above zero"),
    (["collect", "--keep-free", "1.5G"], "it must be a size in whole bytes"),
    (["collect", "--parallel", "-1"], "it must be a number from 1 to 64"),
    (["collect", "--every", "-1m"], "it must be a duration"),
    (["list", "--naming", "-x"], "The value '-x' is invalid for '--naming <naming>'"),
  ]) func aWrongValueIsNamedWithTheFormsAllowed(arguments: [String], message: String) async throws {
    let run = try await tool.run(arguments: arguments + ["cache", "key"])
    #expect(run.status == 64)
    #expect(run.error.hasPrefix("Error: The value '"), "\(run.error)")
    #expect(run.error.contains(message), "\(run.error)")
  }

  @Test(arguments: [
    ("BLOBCACHE_SIZE_LIMT", "is BLOBCACHE_SIZE_LIMIT meant?"),
    ("BLOBCACHE_SIZELIMIT", "is BLOBCACHE_SIZE_LIMIT meant?"),
    ("BLOBCACHE_DIRECTORY_OF_MINE", "the settings are BLOBCACHE_ALLOW_WORLD_WRITABLE, BLOBCACHE_COUNT_LIMIT, "),
  ]) func aVariableThatIsNoSettingIsNamed(name: String, advice: String) async throws {
    try await tool.store("1", for: "key")
    let run = try await tool.run("collect", "cache", environment: [name: "1"])
    #expect(run.status == 0)
    #expect(
      run.error.hasPrefix("blobcache: the environment: \(name) is no setting, and is passed over; \(advice)"),
      "\(run.error)")
  }

  @Test func countersThatAreNotKnownAreSaidToBeSo() async throws {
    try await tool.store("1", for: "key")
    try FileManager.default.removeItem(at: tool.directory.url("cache/.blobcache"))
    let run = try await tool.run("usage", "--fast", "cache")
    #expect(run.status == 1)
    #expect(
      run.error.hasPrefix("blobcache: cache: the counters are not known, because no program of this version"))
    // The lock creates a control file beside a record, and the estimate counts once.
    #expect(try await tool.run("lock", "cache", "key").status == 0)
    for _ in 0..<2 {
      let run = try await tool.run("usage", "--fast", "--json", "cache")
      #expect(run.status == 0)
      #expect(run.text.contains(#""records":1"#) && run.text.contains(#""lockedRecords":1"#), "\(run.text)")
    }
  }

  // MARK: - The default expiration

  @Test func aStoreWithoutATimeToLiveSaysHowLongThatIs() async throws {
    let run = try await tool.run("store", "cache", "key")
    let note =
      "stored without --ttl: expires 10m after the last access; say --ttl 6h or --ttl never to change that, "
      + "--ttl 0 to keep it and not to be told"
    #expect(run.error == "blobcache: \(note)\n")
    for options in [["--quiet"], ["--json"], ["--ttl", "0"], ["--ttl", "1h"], ["--locked"]] {
      #expect(try await tool.run(arguments: ["store"] + options + ["cache", "key"]).error == "")
    }
    let longer = try await tool.run("store", "--default-ttl", "1w", "cache", "key")
    #expect(longer.error.contains("expires 7d after the last access"))
  }

  @Test func aBlobCanLiveForEver() async throws {
    #expect(try await tool.run("store", "--ttl", "never", "cache", "key").text == "key: stored, 0 B, ttl never\n")
    #expect(try await tool.run("collect", "cache", now: Tool.now + 1_000_000_000).status == 0)
    let list = try await tool.run("list", "cache", now: Tool.now + 1_000_000_000)
    #expect(list.text.contains("   never  2023-11-14T22:13:20Z"), "\(list.text)")
    #expect(list.text.hasSuffix("never  key\n"), "\(list.text)")
  }
}
