import Foundation
import TestSupport
import Testing

#if canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#elseif canImport(Android)
  import Android
#elseif canImport(Darwin)
  import Darwin
#endif

/// Spec/CommandLine.md: a signal ends the tool once what it was writing is gone.
@Suite(.timeLimit(.minutes(10))) struct SignalTests {
  let tool: Tool

  init() throws { tool = try Tool() }

  private func temporaryFiles() throws -> [String] {
    let url = tool.directory.url("cache")
    guard FileManager.default.fileExists(atPath: url.path) else { return [] }
    return try FileManager.default.subpathsOfDirectory(atPath: url.path).filter { $0.contains("/.tmp-") }
  }

  /// A store in the middle of its input.
  private func store(wrapper: [String] = []) throws -> (ChildProcess, Pipe) {
    let input = Pipe()
    let process = try ChildProcess(
      wrapper + [Tool.executable.path, "store", "cache", "key"], in: tool.directory.url(""),
      environment: ["PATH": "/usr/bin:/bin"], input: input)
    try input.fileHandleForWriting.write(contentsOf: Data(count: 1000))
    while try temporaryFiles().isEmpty, process.isRunning { usleep(1000) }
    return (process, input)
  }

  @Test(arguments: [SIGINT, SIGTERM, SIGHUP]) func aStoreThatIsStoppedLeavesNothing(signal: Int32) async throws {
    try await tool.store("old", for: "key")
    let (process, input) = try store()
    process.send(signal)
    #expect(process.wait() == 128 + signal)
    #expect(try temporaryFiles() == [])
    #expect(try await tool.run("load", "cache", "key").text == "old")
    withExtendedLifetime(input) {}
  }

  /// What is ignored stays so.
  @Test func aHangupThatIsIgnoredEndsNothing() throws {
    let (process, input) = try store(wrapper: ["sh", "-c", #"trap "" HUP; exec "$0" "$@""#])
    process.send(SIGHUP)
    try input.fileHandleForWriting.close()
    #expect(process.wait() == 0)
  }
}
