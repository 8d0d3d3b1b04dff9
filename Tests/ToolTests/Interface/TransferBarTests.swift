import Foundation
import TestSupport
import Testing

@testable import BlobCacheCommands

#if canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#elseif canImport(Android)
  import Android
#elseif canImport(Darwin)
  import Darwin
#endif

/// Spec/CommandLine.md: a bar for transfers of more than a second. Tests keep the pipe busy until it is shown.
@Suite(.timeLimit(.minutes(30))) struct TransferBarTests {
  let tool: Tool
  let terminal: PseudoTerminal

  init() throws {
    tool = try Tool()
    terminal = try PseudoTerminal(columns: 60)
  }

  private func start(
    _ arguments: [String], input: Any = FileHandle.nullDevice, errors: FileHandle? = nil
  ) throws -> ChildProcess {
    try ChildProcess(
      [Tool.executable.path] + arguments, in: tool.directory.url(""),
      environment: ["PATH": "/usr/bin:/bin", "TERM": "xterm"], input: input, errors: errors ?? terminal.device)
  }

  /// Repeats a small step until the terminal shows a text.
  private func waitForBar(_ text: String, _ process: ChildProcess, meanwhile work: () throws -> Void) throws -> String {
    var shown = ""
    while !shown.contains(text) {
      try #require(process.isRunning, "it has ended: \(shown)")
      try work()
      usleep(10_000)
      shown += terminal.finish()
    }
    return shown
  }

  /// A store from a pipe that yields a byte occasionally.
  @Test(arguments: [[], ["--size", "1MB"]] as [[String]]) func aLongStoreShowsABarWhichIsGoneInTheEnd(
    options: [String]
  ) async throws {
    let input = Pipe()
    let process = try start(["store", "cache", "key", "--ttl", "1h"] + options, input: input)
    var count = 0
    let shown = try waitForBar(options.isEmpty ? " B, " : " of 1.0 MB, ", process) {
      try input.fileHandleForWriting.write(contentsOf: Data([1]))
      count += 1
    }
    #expect(shown.contains("B/s") && shown.hasPrefix("\r\u{1B}[Kkey "))
    #expect(shown.contains(" left") == !options.isEmpty)
    if !options.isEmpty { try input.fileHandleForWriting.write(contentsOf: Data(count: 1_000_000 - count)) }
    try input.fileHandleForWriting.close()
    #expect(process.wait() == 0)
    #expect((shown + terminal.finish()).hasSuffix("\r\u{1B}[K"))
  }

  /// A load into a pipe that is read slowly.
  @Test func aLongLoadShowsABarWhichIsGoneInTheEnd() async throws {
    try await tool.store(String(repeating: "x", count: 4 << 20), for: "key", "--ttl", "never")
    let path = tool.directory.url("pipe").path
    #expect(mkfifo(path, 0o600) == 0)
    let process = try start(["load", "cache", "key", "--output", "pipe", "--no-touch"])
    let output = try FileHandle(forReadingFrom: URL(filePath: path))
    var bytes = 0
    let shown = try waitForBar(" of 4.2 MB, ", process) {
      bytes += try output.read(upToCount: 20_000)?.count ?? 0
    }
    while let more = try output.read(upToCount: 1 << 20), !more.isEmpty { bytes += more.count }
    #expect(process.wait() == 0)
    #expect(bytes == 4 << 20)
    #expect((shown + terminal.finish()).hasSuffix("\r\u{1B}[K"))
  }

  /// A signal erases the bar and the partial output.
  @Test(arguments: [SIGINT, SIGTERM]) func aSignalErasesTheBar(signal: Int32) async throws {
    let input = Pipe()
    let process = try start(["store", "cache", "key"], input: input)
    let shown = try waitForBar(" B, ", process) { try input.fileHandleForWriting.write(contentsOf: Data([1])) }
    process.send(signal)
    #expect(process.wait() == 128 + signal)
    #expect((shown + terminal.finish()).hasSuffix("\r\u{1B}[K"))
    #expect(
      try tool.directory.names(in: "cache").filter { $0.count == 2 }.flatMap {
        try tool.directory.names(in: "cache/" + $0)
      }.isEmpty)
  }

  /// With `--quiet`, or on a terminal that cannot move its cursor, no bar is shown.
  @Test(arguments: [["--quiet"], []] as [[String]]) func nobodyElseSeesOne(options: [String]) throws {
    let input = Pipe()
    let process = try ChildProcess(
      [Tool.executable.path, "store", "cache", "key", "--ttl", "1h"] + options, in: tool.directory.url(""),
      environment: ["PATH": "/usr/bin:/bin", "TERM": options.isEmpty ? "dumb" : "xterm"], input: input,
      errors: terminal.device)
    for _ in 0..<30 {
      try input.fileHandleForWriting.write(contentsOf: Data([1]))
      usleep(50_000)
    }
    try input.fileHandleForWriting.close()
    #expect(process.wait() == 0)
    #expect(terminal.finish() == "")
  }

  // MARK: Sizes and moves

  /// A payload with another size than announced is not stored.
  @Test(arguments: [9, 11]) func anotherSizeIsNotStored(size: Int) async throws {
    try await tool.store("old", for: "key")
    let run = try await tool.run("store", "--size", String(size), "cache", "key", input: Data(count: 10))
    #expect(run.status == 2)
    #expect(run.error.contains("bytes arrived where \(size) were expected"), "\(run.error)")
    #expect(try await tool.run("load", "cache", "key").text == "old")
    #expect(try await tool.run("store", "--size", "10", "cache", "key", "--quiet", input: Data(count: 10)).status == 0)
    #expect(try await tool.run("load", "cache", "key").output == Data(count: 10))
  }

  /// A moved file is removed, but remains if the store fails.
  @Test func filesAreMovedIn() async throws {
    try tool.create("file", "payload")
    #expect(try await tool.run("store", "--move", "--size", "8", "cache", "key", "file").status == 2)
    #expect(FileManager.default.fileExists(atPath: tool.directory.url("file").path))
    #expect(try await tool.run("store", "--move", "cache", "key", "file", "--quiet").status == 0)
    #expect(!FileManager.default.fileExists(atPath: tool.directory.url("file").path))
    #expect(try await tool.run("load", "cache", "key").text == "payload")
    for input in [[], ["-"]] {
      let run = try await tool.run(arguments: ["store", "--move", "cache", "key"] + input)
      #expect(run.status == 64 && run.error.contains("--move takes a file"), "\(run.error)")
    }
  }
}
