import BlobRecord
import BlobStore
import Foundation
import SystemPackage
import TestSupport
import Testing

/// Spec/Semantics.md, N5g and N5i, with several processes.
@Suite struct AdaptiveDirectoryTests {
  let tool: Tool

  init() throws { tool = try Tool(storesFiles: true) }

  private func store() throws -> BlobStore {
    var configuration = BlobStore.Configuration()
    configuration.limits.collectsOnStore = false
    configuration.now = { UnixTime(seconds: Tool.now) }
    return try BlobStore(directory: FilePath(tool.directory.url("cache").path), configuration: configuration)
  }

  private func subdirectories() throws -> [String] {
    try tool.directory.names(in: "cache").filter { !$0.hasPrefix(".") && $0 != "CACHEDIR.TAG" }
  }

  /// Makes the counter of records exceed the bound.
  private func setRecords(_ count: Int64) throws {
    let file = try FileHandle(forUpdating: tool.directory.url("cache/.blobcache"))
    try file.seek(toOffset: UInt64(ControlLayout.Counter.records.present))
    try file.write(contentsOf: withUnsafeBytes(of: count.littleEndian) { Data($0) })
    try file.close()
  }

  /// A process that has the directory open follows another one that makes it grow.
  @Test func aProcessFollowsTheOneThatMakesADirectoryGrow() async throws {
    try await tool.store("12345", for: "foobar")
    let store = try store()
    #expect(try store.load("foobar")?.payload == Data("12345".utf8))
    #expect(try subdirectories() == ["v"])
    try setRecords(5000)
    try await tool.store("new", for: "other")
    #expect(try subdirectories() == ["il", "v"])
    #expect(try store.load("other")?.payload == Data("new".utf8))
    try store.store(Data("third".utf8), for: "third")
    try store.store(Data("changed".utf8), for: "foobar")
    #expect(try tool.directory.names(in: "cache/v") == ["foobar"])
    #expect(try subdirectories().allSatisfy { $0 == "v" || $0.count == 2 })
    for (key, payload) in [("foobar", "changed"), ("other", "new"), ("third", "third")] {
      #expect(try await tool.run("load", "cache", key).text == payload)
    }
    let listed = try await tool.run("list", "cache").text
    #expect(["foobar", "other", "third"].allSatisfy(listed.contains))
    #expect(try await tool.run("verify", "cache").status == 0)
    #expect(try await tool.run("remove", "cache", "foobar").status == 0)
    #expect(try store.load("foobar") == nil)
    #expect(try await tool.run("collect", "cache").status == 0)
    #expect(try subdirectories().allSatisfy { $0.count == 2 })
    #expect(try store.load("other") != nil && store.load("third") != nil)
  }

  /// Several processes exceed the bound together, while this one replaces and loads a blob that always exists.
  @Test(.timeLimit(.minutes(10))) func processesExceedTheBoundTogether() async throws {
    let (importers, files) = (4, 600)
    for importer in 0..<importers {
      for file in 0..<files { try tool.create("source \(importer)/\(importer)-\(file)", "\(file)") }
    }
    let store = try store()
    try store.store(Data("0".utf8), for: "foobar")
    try await withThrowingTaskGroup(of: Tool.Run.self) { group in
      for importer in 0..<importers {
        group.addTask { [tool] in try await tool.run("import", "--ttl", "never", "cache", "source \(importer)") }
      }
      for round in 0..<500 {
        try store.store(Data("\(round)".utf8), for: "foobar")
        #expect(try store.load("foobar")?.payload == Data("\(round)".utf8))
        try store.store(Data(), for: "short")
        #expect(try store.remove("short") == .done)
        #expect(try store.load("short") == nil)
      }
      for try await run in group { #expect(run.status == 0, "\(run.error)") }
    }
    #expect(try tool.directory.names(in: "cache/v").contains("foobar"))
    #expect(try subdirectories().count > 64)
    for importer in 0..<importers {
      for file in 0..<files {
        #expect(try store.load(BlobKey("\(importer)-\(file)"))?.payload == Data("\(file)".utf8))
      }
    }
    #expect(try Array(store.records()).count == importers * files + 1)
  }
}
