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

/// The tool as a service: a process that goes on until it is told to stop. Its output can be waited for.
///
/// A test waits for something that must come. If it never does, the suite's time limit ends the test.
final class ToolService: Sendable {
  private let process: ChildProcess
  /// Lines of the standard output and of the standard error.
  private let output: LineReader
  private let error: LineReader

  /// - Parameter arguments: after `collect`.
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

  /// The next object on standard output.
  func nextObject() async throws -> [String: JSONValue] {
    guard let line = await output.next() else { throw Tool.Failure(message: "the output has ended") }
    return try JSONDecoder().decode([String: JSONValue].self, from: Data(line.utf8))
  }

  /// The next report of a pass that found something expired. However late the test goes on, passes that come before what they
  /// are to find, or are left out, tell of nothing.
  func nextExpiry() async throws -> [String: JSONValue] {
    while true {
      let pass = try await nextObject()
      if case .integer(let count)? = pass["expired"], count > 0 { return pass }
    }
  }

  /// The next line of standard error that contains a text.
  @discardableResult
  func nextMessage(containing text: String) async throws -> String {
    while let line = await error.next() {
      if line.contains(text) { return line }
    }
    throw Tool.Failure(message: "no message has \(text)")
  }

  /// Whether standard output has ended, after its remaining lines, if any.
  func remainingOutput() async -> [String] {
    var lines: [String] = []
    while let line = await output.next() { lines.append(line) }
    return lines
  }

  /// The exit status; 128 and more after a signal.
  func status() async -> Int32 { await process.ended() }

  func stop(_ signal: Int32 = SIGTERM) async -> Int32 {
    send(signal)
    return await status()
  }
}

/// Lines that a process writes into a pipe, up to its end. The end is a mark that is written when the process is gone:
/// another test's process may have inherited the pipe, and would keep it open.
private final class LineReader: Sendable {
  /// What the process writes to.
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
    // A thread of its own, because it blocks.
    Thread.detachNewThread { Self.read(output, found) }
  }

  private static func read(_ output: FileHandle, _ found: AsyncStream<String>.Continuation) {
    var rest = Data()
    reading: while true {
      // What is there, or the next that comes; nothing at the end.
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
