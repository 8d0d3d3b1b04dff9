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

/// Directories that are missing, not directories, or not readable.
@Suite struct DirectoryTests {
  let tool: Tool

  init() throws {
    tool = try Tool()
  }

  private static let commands = [
    ["load", "DIR", "key"], ["load", "DIR", "key", "--output", "out"], ["touch", "DIR", "key"], ["lock", "DIR", "key"],
    ["unlock", "DIR", "key"], ["remove", "DIR", "key"], ["remove", "DIR", "--all"], ["remove", "DIR", "--locked"],
    ["remove", "DIR", "--unlocked"], ["list", "DIR"], ["list", "DIR", "--prefix", "key"], ["usage", "DIR"],
    ["dump", "DIR"], ["verify", "DIR"], ["collect", "DIR"], ["collect", "DIR", "--dry-run", "--size-limit", "1MB"],
  ]

  private func arguments(_ command: [String], directory: String) -> [String] {
    command.map { $0 == "DIR" ? directory : $0 }
  }

  @Test(arguments: commands) func anAbsentDirectoryIsAFailureAndIsNotMade(command: [String]) async throws {
    let run = try await tool.run(arguments: arguments(command, directory: "missing"))
    #expect(run.status == 2)
    #expect(["", "key: failed\n"].contains(run.text))
    #expect(run.error.hasPrefix("blobcache: "))
    #expect(run.error.contains("missing"))
    #expect(try tool.directory.names() == [])
  }

  /// Only `dump` accepts a file; for other commands it is not a directory.
  @Test(arguments: commands.filter { $0[0] != "dump" } + [["store", "DIR", "key"]])
  func aFileIsNoDirectory(command: [String]) async throws {
    try tool.create("file", "content")
    let run = try await tool.run(arguments: arguments(command, directory: "file"))
    #expect(run.status == 2)
    #expect(["", "key: failed\n"].contains(run.text))
    #expect(run.error.contains("Not a directory"))
  }

  @Test func storesMakeDirectoriesThatAreTheOwnersAlone() async throws {
    #expect(try await tool.run("store", "a/b/cache", "key").status == 0)
    let attributes = try FileManager.default.attributesOfItem(atPath: tool.directory.url("a/b/cache").path)
    #expect(attributes[.posixPermissions] as? Int == 0o700)
  }

  // MARK: Permissions

  /// Root ignores permissions, so the tool runs as another user then.
  private static let unprivileged =
    geteuid() == 0 ? ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] : []

  /// A Boolean value that indicates whether the process can become another user that may execute the built tool.
  private static let canRunUnprivileged: Bool = {
    guard geteuid() == 0 else { return true }
    // Without setpriv, the process cannot become another user.
    return (try? ChildProcess.run(unprivileged + [Tool.executable.path, "--help"]).status) == 0
  }()

  private func setPermissions(_ permissions: Int, _ file: String) throws {
    try FileManager.default.setAttributes([.posixPermissions: permissions], ofItemAtPath: tool.directory.url(file).path)
  }

  @Test(.enabled(if: canRunUnprivileged, "needs setpriv and a build that everybody may read"), arguments: commands)
  func aDirectoryThatMayNotBeReadIsAFailure(command: [String]) async throws {
    try await tool.store("1", for: "key")
    try setPermissions(0o755, "")
    try setPermissions(0o000, "cache")
    defer { #expect(throws: Never.self) { try setPermissions(0o700, "cache") } }
    let run = try await tool.run(arguments: arguments(command, directory: "cache"), wrapper: Self.unprivileged)
    #expect(run.status == 2)
    #expect(["", "key: failed\n"].contains(run.text))
    #expect(run.error.contains("Permission denied"))
    #expect(run.error.contains("(2): Permission denied: cache"))
  }

  @Test(
    .enabled(if: canRunUnprivileged, "needs setpriv and a build that everybody may read"),
    arguments: ["cache/7c/key", "cache/7c"])
  func whatMayNotBeReadIsNotLeftOutInSilence(file: String) async throws {
    try tool.storeFiles()
    try await tool.store("1", for: "key")
    try await tool.store("1", for: "other")
    for path in ["", "cache", "cache/7c", "cache/il"] { try setPermissions(0o755, path) }
    for readable in ["cache/il/other", "cache/.blobcache.conf"] { try setPermissions(0o644, readable) }
    try setPermissions(0o000, file)
    defer { #expect(throws: Never.self) { try setPermissions(0o700, file) } }
    for command in [
      ["list", "--json", "cache"], ["list", "--json", "--prefix", "key", "cache"], ["usage", "--json", "cache"],
      ["verify", "--json", "cache"], ["dump", "--json", "cache"],
    ] {
      let run = try await tool.run(arguments: command, wrapper: Self.unprivileged)
      #expect(run.status == 2, "\(command)")
      #expect(run.error.contains("Permission denied"), "\(command)")
    }
    let list = try await tool.run("list", "--json", "cache", wrapper: Self.unprivileged)
    #expect(try list.objects().map { $0["key"] } == ["other"])
  }
}
