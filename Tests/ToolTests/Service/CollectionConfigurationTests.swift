import Foundation
import SystemPackage
import TestSupport
import Testing

/// The precedence of `collect` settings: command line, environment, file, and the directory's program.
@Suite struct CollectionConfigurationTests {
  let tool: Tool

  init() throws {
    tool = try Tool()
  }

  private func writeConfiguration(_ text: String) throws {
    try tool.create("config.json", text.replacing("DIR", with: tool.directory.path.string))
  }

  private func path(_ name: String) -> String { tool.directory.url(name).path }

  /// Creates a cache of ten records of a thousand bytes.
  private func fill(_ name: String) async throws {
    for i in 0..<10 {
      let run = try await tool.run("store", name, "key\(i)", now: Tool.now + Int64(i), input: Data(count: 936))
      #expect(run.status == 0)
    }
  }

  /// Returns the bytes that a dry run would leave of each directory, in order.
  private func bytesLeft(_ arguments: String..., environment: [String: String] = [:]) async throws -> [JSONValue?] {
    let run = try await tool.run(
      arguments: ["collect", "--dry-run", "--json"] + arguments, now: Tool.now + 10, environment: environment)
    #expect(run.status == 0, "\(run.error)")
    return try run.objects().map { $0["bytesAfter"] }
  }

  @Test func theSpecialGoesBeforeTheGeneral() async throws {
    try await fill("one")
    try await fill("two")
    try writeConfiguration(#"{"sizeLimit": "8KB", "directories": {"DIR/one": {"sizeLimit": 4000}, "DIR/two": {}}}"#)
    let file = ["--config", "config.json"]
    let environment = ["BLOBCACHE_SIZE_LIMIT": "6KB"]
    #expect(try await bytesLeft(file[0], file[1]) == [3000, 7000])
    #expect(try await bytesLeft(file[0], file[1], environment: environment) == [5000, 5000])
    #expect(try await bytesLeft(file[0], file[1], "--size-limit", "3KB", environment: environment) == [2000, 2000])
    // The file's settings apply to a directory on the command line, whatever path is used.
    #expect(try await bytesLeft(path("two/../one"), file[0], file[1]) == [3000])
    #expect(try await bytesLeft("one", environment: environment) == [5000])
    #expect(try await bytesLeft("one", "./one") == [10000])
    #expect(try await bytesLeft("one", "--count-limit", "6", environment: ["BLOBCACHE_COUNT_LIMIT": "2"]) == [5000])
    #expect(try await bytesLeft("one", environment: ["BLOBCACHE_COUNT_LIMIT": "1", "BLOBCACHE_KEEP_FREE": "0"]) == [0])
  }

  /// Semantics.md, A21: links are resolved before the dots that follow them.
  @Test func theFilesDirectoriesAreThoseTheirPathsLeadTo() async throws {
    try FileManager.default.createDirectory(
      at: tool.directory.url("far/away"), withIntermediateDirectories: true)
    try FileManager.default.createSymbolicLink(atPath: path("link"), withDestinationPath: path("far/away"))
    try await fill("one")
    try await fill("far/one")
    let text = #"{"directories": {"DIR/one": {"sizeLimit": 4000}, "DIR/link/../one": {"sizeLimit": 8000}}}"#
    try writeConfiguration(text)
    #expect(try await bytesLeft("--config", "config.json") == [7000, 3000])
    #expect(try await bytesLeft("far/one", "link/../one", "--config", "config.json") == [7000])
    try writeConfiguration(text.replacing("DIR/one", with: "DIR/far/one"))
    let run = try await tool.run("collect", "--config", "config.json")
    #expect(run.status == 64)
    #expect(run.error.contains("is there twice"), "\(run.error)")
  }

  @Test func everythingASettingCanBe() async throws {
    try await fill("one")
    try writeConfiguration(
      """
      {
        "every": "6m", "jitter": 0, "firstDelay": "1s", "parallel": 3, "metricsFile": "DIR/metrics",
        "sizeLimit": 2147483648, "maxTime": "1h", "defaultTTL": "2d", "eviction": "oldest", "naming": "encoded", "flat": false,
        "directories": {
          "DIR/one": {
            "every": "7m", "jitter": "1m", "sizeLimit": "1GiB", "countLimit": 9, "maxTime": 60, "defaultTTL": "1d", "naming": "encoded",
            "flat": false, "eviction": "frequency", "name": "covers", "remote": "s3://blobs/covers", "remoteMode": "readOnly",
            "remoteAnnounce": true
          }
        }
      }
      """)
    let run = try await tool.run("collect", "--config", "config.json", "--once", "--json")
    #expect(run.status == 0, "\(run.error)")
    #expect(try run.objects().map { $0["directory"] } == [.string(path("one"))])
    #expect(try tool.directory.names().contains("metrics"))
  }

  @Test(
    arguments: [
      ("", "config.json"), ("[]", "the file: must be an object"), ("{\"every\": }", "config.json"),
      (#"{"every": "often", "directories": {"/a": {}}}"#, "every: must be a duration"),
      (#"{"every": null, "directories": {"/a": {}}}"#, "every: must be a duration"),
      (#"{"sizeLimit": 0, "directories": {"/a": {}}}"#, "sizeLimit: must be a size in whole bytes or units"),
      (#"{"sizeLimit": 1.5, "directories": {"/a": {}}}"#, "sizeLimit: must be a size in whole bytes or units"),
      (#"{"sizelimit": 1, "directories": {"/a": {}}}"#, "sizelimit: there is no such field"),
      (#"{"parallel": 0, "directories": {"/a": {}}}"#, "parallel: must be a number from 1 to 64"),
      (#"{"naming": "md5", "directories": {"/a": {}}}"#, "naming: must be one of encoded, verbatim, sha256"),
      (#"{"eviction": "newest", "directories": {"/a": {}}}"#, "eviction: must be one of frequency, oldest"),
      (#"{"flat": "perhaps", "directories": {"/a": {}}}"#, "flat: must be true or false"),
      (#"{"metricsFile": "metrics", "directories": {"/a": {}}}"#, "metricsFile: must be an absolute path"),
      (#"{"directories": ["/a"]}"#, "directories: must be an object"),
      (#"{"directories": {"/a": 1}}"#, #"directories."/a": must be an object"#),
      (#"{"directories": {"a": {}}}"#, "directories.a: must be an absolute path"),
      (#"{"directories": {"/a": {}, "/b/../a": {}}}"#, "is there twice"),
      (#"{"directories": {"/a": {"maxTime": "1y"}}}"#, #"directories."/a".maxTime: must be a duration"#),
      (#"{"directories": {"/a": {"remote": {}}}}"#, #"directories."/a".remote: must be a text"#),
      (#"{"remote": "s3://blobs", "directories": {"/a": {}}}"#, "remote: there is no such field"),
      (#"{"directories": {"/a": {"parallel": 2}}}"#, #"directories."/a".parallel: belongs to the whole file"#),
      (#"{"directories": {"/a": {"every": "6m"}}}"#, "has a field \"every\", but the file itself has none"),
      (#"{"directories": {}}"#, "names no directories"), (#"{"every": "6m"}"#, "names no directories"),
    ])
  func aMistakeInTheFileIsNamed(text: String, message: String) async throws {
    try writeConfiguration(text)
    let run = try await tool.run("collect", "--config", "config.json")
    #expect(run.status == 64)
    #expect(run.error.hasPrefix("Error: "))
    #expect(run.error.contains(message), "\(run.error)")
    #expect(run.text == "")
  }

  @Test func aFileThatCannotBeReadIsAFailure() async throws {
    for path in ["missing.json", "."] {
      let run = try await tool.run("collect", "--config", path)
      #expect(run.status == 2)
      #expect(run.error.contains("\(path): the configuration cannot be read: "), "\(run.error)")
    }
  }

  @Test(arguments: [
    ("BLOBCACHE_SIZE_LIMIT", "much"), ("BLOBCACHE_EVERY", ""), ("BLOBCACHE_DEFAULT_TTL", "-1"),
    ("BLOBCACHE_MAX_TIME", "1.5"), ("BLOBCACHE_PARALLEL", "65"), ("BLOBCACHE_FLAT", "1"), ("BLOBCACHE_NAMING", "x"),
    ("BLOBCACHE_EVICTION", "newest"),
  ])
  func aMistakeInTheEnvironmentIsNamed(variable: String, value: String) async throws {
    let run = try await tool.run("collect", "cache", environment: [variable: value])
    #expect(run.status == 64)
    #expect(run.error.contains("\(variable)=\(value): must be "), "\(run.error)")
  }

  @Test(arguments: [
    ["--every", "6m", "--once", "cache"], ["--every", "6m", "--dry-run", "cache"], ["--every", "6m", "cache"],
    ["--parallel", "0", "cache"], ["--parallel", "65", "cache"], ["--every", "x", "cache"], ["--every", "6m"], [],
  ])
  func whatDoesNotGoTogetherIsWrongUsage(arguments: [String]) async throws {
    // The third is invalid because every run here has --now.
    #expect(try await tool.run(arguments: ["collect"] + arguments).status == 64)
  }

  private static let onePass = [["--once"], ["--dry-run"], ["--empty-bin"], ["--wait"], ["--now", "1700000000"]]

  @Test(arguments: onePass) func whatIsForOnePassOutweighsAnIntervalFromElsewhere(options: [String]) async throws {
    try await fill("cache")
    try writeConfiguration(#"{"every": "6m", "directories": {"DIR/cache": {}}}"#)
    for (arguments, environment) in [(["cache"], ["BLOBCACHE_EVERY": "6m"]), (["--config", "config.json"], [:])] {
      let run = try await tool.run(
        arguments: ["collect", "--json"] + options + arguments, now: nil, environment: environment)
      #expect(run.status == 0, "\(run.error)")
      #expect(try run.objects().map { $0["type"] } == ["collection"])
    }
  }

  @Test(arguments: onePass) func whatIsForOnePassDoesNotGoWithAnInterval(options: [String]) async throws {
    let run = try await tool.run(arguments: ["collect", "--every", "6m"] + options + ["cache"], now: nil)
    #expect(run.status == 64)
    #expect(run.error.hasPrefix("Error: "))
  }
}
