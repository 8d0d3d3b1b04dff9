import BlobRecord
import BlobStore
import Foundation
import SystemPackage
import TestSupport
import Testing

/// The settings that the tool takes from the recorded configuration of a directory's program.
@Suite(.timeLimit(.minutes(30))) struct RecordedProgramTests {
  let tool: Tool

  init() throws {
    tool = try Tool(storesFiles: true)
  }

  /// Returns the store of a program, whose blobs live for a day by default.
  private func program(
    _ name: String = "cache", at time: Int64 = Tool.now, layout: RecordLayout = RecordLayout()
  ) throws -> BlobStore {
    var configuration = BlobStore.Configuration()
    configuration.packing = .off
    configuration.expiry.defaultTimeToLive = .seconds(86400)
    configuration.layout = .init(layout)
    configuration.now = { UnixTime(seconds: time) }
    return try BlobStore(directory: FilePath(tool.directory.url(name).path), configuration: configuration)
  }

  // MARK: collect --every

  /// The passes are one minimal interval apart.
  @Test func aServiceGoesByAProgramThatCameLater() async throws {
    try FileManager.default.createDirectory(at: tool.directory.url("cache"), withIntermediateDirectories: true)
    let service = try ToolService(["cache", "--every", "1m", "--jitter", "0s", "--json"], in: tool.directory)
    #expect(try await service.nextObject()["examined"] == 0)
    let hourAgo = Int64(Date().timeIntervalSince1970) - 3600
    let store = try program(at: hourAgo, layout: RecordLayout(naming: .sha256, separatesDirectories: false))
    try store.store(Data([1, 2, 3]), for: "used by the program")
    try store.store(Data([1, 2, 3]), for: "expired", ttl: .seconds(60))
    let pass = try await service.nextExpiry()
    #expect(pass["examined"] == 2)
    #expect(pass["expired"] == 1)
    #expect(try store.contains("used by the program"))
    #expect(await service.stop() == 0)
  }

  /// If a directory cannot be opened, the pass fails and the schedule continues.
  @Test func aDirectoryThatComesLaterIsCollected() async throws {
    let tool = try Tool()
    let service = try ToolService(["cache", "--every", "1m", "--jitter", "0s", "--json"], in: tool.directory)
    try await service.nextMessage(containing: "cache")
    try await tool.store("12345", for: "key", "--ttl", "1m")
    #expect(try await service.nextExpiry()["expired"] == 1)
    #expect(await service.stop() == 0)
  }

  // MARK: dump

  private func state(_ path: String, in directory: String = "") async throws -> JSONValue? {
    let run = try await tool.execute(
      [
        "sh", "-c", #"cd "./$1" && exec "$0" dump --json --now "$3" "$2""#, Tool.executable.path, directory, path,
        "\(Tool.now + 3600)",
      ])
    #expect(run.status == 0, "\(run.error)")
    return try run.objects().first?["state"]
  }

  @Test func aRecordInASubdirectoryIsJudgedAsItsCacheIs() async throws {
    try program().store(Data([1]), for: "key")
    #expect(try await state("cache/ke/key") == "live")
    #expect(try await state("ke/key", in: "cache") == "live")
    #expect(try await state("key", in: "cache/ke") == "live")
    #expect(try await state("./key", in: "cache/ke") == "live")
    #expect(try await state("../ke/key", in: "cache/ke") == "live")
    // Outside of a cache, the tool's defaults apply.
    try tool.create("backup/other")
    try FileManager.default.copyItem(at: tool.directory.url("cache/ke/key"), to: tool.directory.url("backup/key"))
    #expect(try await state("backup/key") == "expired")
  }

  @Test func aSubdirectoryIsTheRecordsInIt() async throws {
    let store = try program()
    for key in ["key", "kept", "other"] { try store.store(Data([1]), for: BlobKey(key)) }
    for directory in ["cache/ke", "cache/ke/", "cache/../cache/ke"] {
      let run = try await tool.run("dump", "--json", directory, now: Tool.now + 3600)
      #expect(run.status == 0, "\(run.error)")
      let objects = try run.objects()
      #expect(Set(objects.map { $0["file"] }) == ["key", "kept"])
      #expect(objects.allSatisfy { $0["state"] == "live" })
    }
    try tool.create("cache/foreign/ke/key")
    let foreign = try await tool.run("dump", "cache/foreign")
    #expect(foreign.status == 1)
  }

  // MARK: --flat

  @Test func whatIsSaidGoesBeforeARecordedFlat() async throws {
    let flat = RecordLayout(separatesDirectories: false)
    try program(layout: flat).store(Data([1]), for: "key")
    #expect(try tool.directory.names(in: "cache").contains("key"))
    #expect(try await tool.run("load", "cache", "key").status == 0)
    #expect(try await tool.run("load", "--flat", "cache", "key").status == 0)
    #expect(try await tool.run("load", "--no-flat", "cache", "key").status == 1)

    func examined(_ arguments: String...) async throws -> JSONValue? {
      let run = try await tool.run(arguments: ["collect", "--dry-run", "--json"] + arguments)
      #expect(run.status == 0, "\(run.error)")
      return try run.objects().first?["examined"]
    }
    try tool.create("config.json", #"{"flat": false, "directories": {"\#(tool.directory.url("cache").path)": {}}}"#)
    #expect(try await examined("cache") == 1)
    #expect(try await examined("--config", "config.json") == 0)
    #expect(try await examined("--config", "config.json", "--flat") == 1)
  }
}
