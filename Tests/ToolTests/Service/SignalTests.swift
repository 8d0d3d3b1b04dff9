import BlobRecord
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

/// Spec/CommandLine.md: a signal ends the tool after its partial output was removed.
@Suite(.timeLimit(.minutes(30))) struct SignalTests {
  let tool: Tool

  init() throws { tool = try Tool() }

  private func temporaryFiles() throws -> [String] {
    let url = tool.directory.url("cache")
    guard FileManager.default.fileExists(atPath: url.path) else { return [] }
    return try FileManager.default.subpathsOfDirectory(atPath: url.path).filter { $0.contains("/.tmp-") }
  }

  /// Starts a store that waits for the rest of its input.
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

  /// The file of a killed store is reported by `usage`, and collected.
  @Test func aStoreThatIsKilledShowsInTheUsage() async throws {
    let (process, input) = try store()
    while try await temporaryBytes() != 1064, process.isRunning { usleep(1000) }
    process.send(SIGKILL)
    #expect(process.wait() == 128 + SIGKILL)
    #expect(try await temporaryBytes() == 1064)
    #expect(try await tool.run("collect", "cache", now: nil).status == 0)
    #expect(try await temporaryBytes() == 0)
    #expect(try temporaryFiles() == [])
    withExtendedLifetime(input) {}
  }

  private func temporaryBytes() async throws -> Int64? {
    guard case .integer(let count)? = try await tool.run("usage", "cache", "--json").objects().first?["temporaryBytes"]
    else {
      return nil
    }
    return count
  }

  /// The signal arrives while the tool writes a payload of half a gibibyte, most of it a hole.
  @Test(arguments: [SIGINT, SIGTERM, SIGHUP]) func aLoadThatIsStoppedLeavesNoOutput(signal: Int32) async throws {
    try tool.storeFiles()
    try await tool.store("1", for: "key")
    let size = UInt64(1) << 29
    let header = RecordHeader(updateTime: UInt64(Tool.now), payloadSize: size)
    let record = tool.directory.url("cache/7c/key").path
    try Data(header.encodedBytes).write(to: tool.directory.url("cache/7c/key"))
    #expect(truncate(record, 64 + off_t(size)) == 0)
    var status: Int32 = 0
    // A load that ended before the signal arrived is repeated.
    for _ in 0..<50 where status == 0 {
      try tool.create("elsewhere/out", "old content")
      let process = try ChildProcess(
        [Tool.executable.path, "load", "--now", String(Tool.now), "cache", "key", "--output", "elsewhere/out"],
        in: tool.directory.url(""), environment: ["PATH": "/usr/bin:/bin"])
      while try tool.directory.names(in: "elsewhere").count < 2, process.isRunning { usleep(1000) }
      process.send(signal)
      status = process.wait()
    }
    #expect(status == 128 + signal)
    #expect(try tool.directory.names(in: "elsewhere") == ["out"])
    #expect(try String(contentsOf: tool.directory.url("elsewhere/out"), encoding: .utf8) == "old content")
  }

  /// An ignored signal remains ignored.
  @Test func aHangupThatIsIgnoredEndsNothing() throws {
    let (process, input) = try store(wrapper: ["sh", "-c", #"trap "" HUP; exec "$0" "$@""#])
    process.send(SIGHUP)
    try input.fileHandleForWriting.close()
    #expect(process.wait() == 0)
  }
}
