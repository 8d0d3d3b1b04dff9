import Foundation
import SystemPackage
import TestSupport

#if canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#elseif canImport(Android)
  import Android
#elseif canImport(Darwin)
  import Darwin
#endif

/// The tool as a service: a process that runs until it is stopped, with output that can be awaited.
///
/// A test waits for output that must arrive. Otherwise, the suite's time limit ends the test.
final class ToolService: Sendable {
  private let process: ChildProcess
  /// The lines of standard output and standard error.
  private let output: LineReader
  private let error: LineReader

  /// - Parameter arguments: The arguments after `collect`.
  init(_ arguments: [String], in directory: TemporaryDirectory, environment: [String: String] = [:]) throws {
    let output = try LineReader()
    let error = try LineReader()
    self.output = output
    self.error = error
    process = try ChildProcess(
      [Tool.executable.path, "collect"] + arguments, in: directory.url(""),
      environment: ["PATH": "/usr/bin:/bin"].merging(environment) { $1 }, output: output.input, errors: error.input
    ) { _ in
      output.end()
      error.end()
    }
  }

  func send(_ signal: Int32) { process.send(signal) }

  /// Returns the next object on standard output.
  func nextObject() async throws -> [String: JSONValue] {
    guard let line = await output.next() else { throw Tool.Failure(message: "the output has ended") }
    return try JSONDecoder().decode([String: JSONValue].self, from: Data(line.utf8))
  }

  /// Returns the next report of a pass that found an expired record. Passes that ran too early or were skipped report
  /// nothing, however slow the test is.
  func nextExpiry() async throws -> [String: JSONValue] {
    while true {
      let pass = try await nextObject()
      if case .integer(let count)? = pass["expired"], count > 0 { return pass }
    }
  }

  /// Returns the next line of standard error that contains a text.
  @discardableResult
  func nextMessage(containing text: String) async throws -> String {
    while let line = await error.next() {
      if line.contains(text) { return line }
    }
    throw Tool.Failure(message: "no message has \(text)")
  }

  /// Returns the remaining lines of standard output up to its end.
  func remainingOutput() async -> [String] {
    var lines: [String] = []
    while let line = await output.next() { lines.append(line) }
    return lines
  }

  /// Returns the exit status, which is 128 or more after a signal.
  func status() async -> Int32 { await process.ended() }

  func stop(_ signal: Int32 = SIGTERM) async -> Int32 {
    send(signal)
    return await status()
  }
}

/// The lines that a process writes into a pipe, up to its end. The end is a mark that is written after the process
/// has ended, because another test's process may have inherited the pipe and would keep it open.
private final class LineReader: Sendable {
  /// The end that the process writes to.
  let input: FileHandle
  private let lines: AsyncStream<String>

  private static let mark = "\u{4}"

  struct Failure: Error {
    let errno: CInt
  }

  init() throws {
    var ends: [CInt] = [-1, -1]
    guard pipe(&ends) == 0 else { throw Failure(errno: errno) }
    for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
    input = FileHandle(fileDescriptor: ends[1], closeOnDealloc: true)
    let output = FileHandle(fileDescriptor: ends[0], closeOnDealloc: true)
    let (lines, found) = AsyncStream<String>.makeStream()
    self.lines = lines
    // This is a separate thread because it blocks.
    Thread.detachNewThread { Self.read(output, found) }
  }

  private static func read(_ output: FileHandle, _ found: AsyncStream<String>.Continuation) {
    var rest = Data()
    reading: while true {
      // This returns available bytes or waits for the next ones. It is empty at the end.
      let data = output.availableData
      if data.isEmpty { break }
      rest += data
      while let end = rest.firstIndex(of: UInt8(ascii: "\n")) {
        let line = String(decoding: rest[..<end], as: UTF8.self)
        if line.hasSuffix(mark) { break reading }
        found.yield(line)
        rest = rest[rest.index(after: end)...]
      }
    }
    found.finish()
  }

  func end() { input.write(Data("\(Self.mark)\n".utf8)) }

  func next() async -> String? {
    for await line in lines { return line }
    return nil
  }
}
