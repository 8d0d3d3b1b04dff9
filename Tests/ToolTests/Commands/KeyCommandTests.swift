import Foundation
import TestSupport
import Testing

/// touch, lock, unlock and remove.
@Suite struct KeyCommandTests {
  let tool: Tool

  init() throws {
    tool = try Tool()
  }

  private func result(_ operation: String, _ key: String, _ result: String) -> [String: JSONValue] {
    ["type": "result", "operation": .string(operation), "key": .string(key), "result": .string(result)]
  }

  @Test func thereIsALineForEveryKey() async throws {
    try await tool.store("1", for: "a")
    try await tool.store("2", for: "b")
    let run = try await tool.run("lock", "cache", "a", "missing", "b")
    #expect(run.status == 1)
    #expect(run.text == "a: locked\nmissing: not found\nb: locked\n")
    #expect(run.error == "")
    #expect(try await tool.run("lock", "--quiet", "cache", "a", "missing").text == "missing: not found\n")
  }

  @Test func locksAreCounted() async throws {
    try await tool.store("1", for: "a")
    #expect(try await tool.run("lock", "cache", "a", "a", "a").status == 0)
    #expect(try await tool.run("unlock", "cache", "a").text == "a: unlocked\n")
    #expect(try await tool.run("list", "--json", "cache").objects().first?["refCount"] == 2)
    #expect(try await tool.run("unlock", "--force", "cache", "a").status == 0)
    let run = try await tool.run("unlock", "--json", "cache", "a", "missing")
    #expect(run.status == 1)
    #expect(try run.objects() == [result("unlock", "a", "notLocked"), result("unlock", "missing", "notFound")])
  }

  @Test func aTouchMovesOnlyWhatHasNoTTL() async throws {
    try await tool.store("1", for: "a")
    try await tool.store("1", for: "b", "--ttl", "1h")
    let run = try await tool.run("touch", "--json", "cache", "a", "b", now: Tool.now + 100)
    #expect(run.status == 0)
    #expect(try run.objects() == [result("touch", "a", "done"), result("touch", "b", "done")])
    let records = try await tool.run("list", "--json", "cache").objects()
    #expect(records.first { $0["key"] == "a" }?["updateTime"] == .integer(Tool.now + 100))
    #expect(records.first { $0["key"] == "b" }?["updateTime"] == .integer(Tool.now))
    #expect(try await tool.run("touch", "cache", "a", now: Tool.now + 5000).text == "a: not found\n")
  }

  @Test func damageIsAResultWithItsRule() async throws {
    try tool.storeFiles()
    try await tool.store("1", for: "key")
    try tool.damage("cache/7c/key", at: 20)
    let run = try await tool.run("lock", "--json", "cache", "key")
    #expect(run.status == 1)
    let object = try #require(try run.objects().first)
    #expect(object["result"] == "damaged")
    #expect(object["error"] == "invalidHeaderCRC")
    #expect(object["code"] == 104)
    #expect(try await tool.run("lock", "cache", "key").text == "key: damaged: invalidHeaderCRC\n")
  }

  @Test func whatCannotBeDoneIsAFailure() async throws {
    try await tool.store("1", for: "key")
    let run = try await tool.run("lock", "--json", "--naming", "verbatim", "cache", "key", "a/b")
    #expect(run.status == 2)
    #expect(try run.objects().map { $0["result"] } == ["done", "failed"])
    #expect(run.error.hasPrefix("blobcache: lock \"a/b\": "))
  }

  @Test func removingADamagedFileIsDone() async throws {
    try tool.storeFiles()
    try await tool.store("1", for: "key")
    try tool.damage("cache/7c/key", at: 0)
    let run = try await tool.run("remove", "cache", "key", "key")
    #expect(run.status == 1)
    #expect(run.text == "key: removed\nkey: not found\n")
  }

  @Test func recordsAreRemovedByState() async throws {
    try await tool.store("1", for: "a", "--locked")
    try await tool.store("2", for: "b")
    try await tool.store("3", for: "c", "--ttl", "1h")
    let unlocked = try await tool.run("remove", "--unlocked", "--json", "cache", now: Tool.now + 700)
    #expect(unlocked.status == 0)
    #expect(
      try unlocked.objects() == [
        ["type": "removal", "directory": "cache", "scope": "unlocked", "files": 2, "bytes": 130]
      ])
    #expect(try await tool.run("remove", "--locked", "cache").text == "cache: 1 file removed, 65 B\n")
    #expect(try await tool.run("remove", "--all", "cache").text == "cache: 0 files removed, 0 B\n")
  }

  @Test func aDirectoryThatMayBeAnythingIsNotWiped() async throws {
    try tool.create("cache/letter", "Dear Sir")
    let run = try await tool.run("remove", "--all", "--flat", "cache")
    #expect(run.status == 2)
    #expect(run.error.contains("no sound record"))
    #expect(try tool.directory.names(in: "cache") == ["letter"])
  }

  @Test(arguments: [["cache"], ["--all", "cache", "key"], ["--all", "--locked", "cache"]])
  func keysAndScopesExcludeEachOther(arguments: [String]) async throws {
    try await tool.store("1", for: "key")
    #expect(try await tool.run(arguments: ["remove"] + arguments).status == 64)
    #expect(try await tool.run("load", "cache", "key").status == 0)
  }

  #if os(Linux)
    /// The tool creates no recycling bin. If a program has created one, files are recycled unless they are purged.
    @Test func filesAreRecycledWhereAProgramDoesSo() async throws {
      try tool.storeFiles()
      func recycled() throws -> Int { try tool.directory.names(in: "cache/.recycled").count }
      try await tool.store("1", for: "a")
      #expect(try await tool.run("remove", "cache", "a").status == 0)
      #expect(try tool.directory.names(in: "cache").contains(".recycled") == false)
      try FileManager.default.createDirectory(
        at: tool.directory.url("cache/.recycled"), withIntermediateDirectories: false,
        attributes: [.posixPermissions: 0o700])
      try await tool.store("1", for: "a")
      try await tool.store("2", for: "b")
      #expect(try await tool.run("remove", "cache", "a").status == 0)
      #expect(try recycled() == 1)
      #expect(try await tool.run("usage", "cache", "--json").objects().first?["recycledFiles"] == 1)
      #expect(try await tool.run("remove", "--purge", "cache", "b").status == 0)
      #expect(try recycled() == 0)
      try await tool.store("1", for: "a")
      #expect(try await tool.run("remove", "cache", "a").status == 0)
      let run = try await tool.run("collect", "--empty-bin", "cache", "--json")
      #expect(try run.objects().first?["recycled"] == 1)
      #expect(try recycled() == 0)
    }
  #endif
}
