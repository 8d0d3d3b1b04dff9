import Foundation
import TestSupport
import Testing

#if canImport(Darwin)
  import Darwin
#elseif canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#elseif canImport(Android)
  import Android
#endif

/// Spec/Semantics.md, P5, and CommandLine.md: a directory that is writable by all users, such as a container's volume.
@Suite struct WorldWritableTests {
  let tool: Tool

  init() throws {
    tool = try Tool()
    try FileManager.default.createDirectory(at: tool.directory.url("cache"), withIntermediateDirectories: false)
    guard chmod(tool.directory.url("cache").path, 0o777) == 0 else { throw Tool.Failure(message: "chmod: \(errno)") }
  }

  /// Every operation that opens a directory, in an order in which each of them has an effect.
  private static let commands = [
    ["store", "--ttl", "0", "cache", "key"], ["load", "cache", "key"], ["touch", "cache", "key"],
    ["lock", "cache", "key"],
    ["unlock", "cache", "key"], ["list", "cache"], ["usage", "cache"], ["collect", "cache"],
    ["usage", "--fast", "cache"],
    ["dump", "cache"], ["verify", "cache"], ["import", "--ttl", "0", "cache", "source"], ["remove", "cache", "key"],
    ["remove", "--all", "cache"],
  ]

  @Test func everyVerbRefusesItAndNamesTheOptionThatTakesIt() async throws {
    try tool.create("source/file", "payload")
    for command in Self.commands {
      let run = try await tool.run(arguments: command)
      #expect(run.status == 2, "\(command)")
      #expect(run.error.contains("no sticky bit"), "\(command): \(run.error)")
      #expect(run.error.contains("; --allow-world-writable uses it all the same"), "\(command): \(run.error)")
    }
    #expect(try FileManager.default.contentsOfDirectory(atPath: tool.directory.url("cache").path) == [])
    for command in Self.commands {
      let run = try await tool.run(arguments: command + ["--allow-world-writable"])
      #expect(run.status == 0, "\(command): \(run.error)")
      #expect(run.error == "", "\(command)")
    }
  }

  @Test func collectIsToldByEnvironmentAndFileToo() async throws {
    let environment = ["BLOBCACHE_ALLOW_WORLD_WRITABLE": "true"]
    #expect(try await tool.run("collect", "cache", environment: environment).status == 0)
    let path = tool.directory.url("cache").path
    try tool.create("general.json", #"{"allowWorldWritable": true, "directories": {"\#(path)": {}}}"#)
    try tool.create("special.json", #"{"directories": {"\#(path)": {"allowWorldWritable": "true"}}}"#)
    try tool.create("not.json", #"{"directories": {"\#(path)": {"allowWorldWritable": false}}}"#)
    try tool.create("wrong.json", #"{"allowWorldWritable": 1}"#)
    #expect(try await tool.run("collect", "--config", "general.json").status == 0)
    #expect(try await tool.run("collect", "--config", "special.json").status == 0)
    let refused = try await tool.run("collect", "--config", "not.json")
    #expect(refused.status == 2)
    #expect(refused.error.contains("--allow-world-writable"))
    #expect(try await tool.run("collect", "--allow-world-writable", "--config", "not.json").status == 0)
    let wrong = try await tool.run("collect", "--config", "wrong.json")
    #expect(wrong.status == 64)
    #expect(wrong.error.contains("allowWorldWritable: must be true or false"))
  }
}
