import BlobStore
import Foundation
import SystemPackage
import TestSupport

/// The built executable, run in a fresh directory as a process of its own, at a time that stands still.
struct Tool {
  /// The working directory; the cache is `cache` below it.
  let directory: TemporaryDirectory

  /// What the tool takes for the current time.
  static let now: Int64 = 1_700_000_000

  /// - Parameter storesFiles: whether `cache` is there, and keeps a file for each record, of which a test looks at some.
  init(inMemory: Bool = false, storesFiles: Bool = false) throws {
    directory = try TemporaryDirectory(inMemory: inMemory)
    if storesFiles { try storeFiles() }
  }

  /// Makes `cache`, as a directory that keeps a file for each record.
  func storeFiles() throws {
    let cache = directory.url("cache")
    try FileManager.default.createDirectory(
      at: cache, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o700])
    try BlobStore.changeSettings(of: FilePath(cache.path)) { $0.packing = .off }
  }

  static let executable = Programs.built("blobcache")

  /// What one run has come to.
  struct Run {
    let status: Int32
    let output: Data
    let error: String

    var text: String { String(decoding: output, as: UTF8.self) }

    /// The lines of a `--json` run.
    func objects() throws -> [[String: JSONValue]] {
      try text.split(separator: "\n").map { try JSONDecoder().decode([String: JSONValue].self, from: Data($0.utf8)) }
    }
  }

  /// Where the standard output or error of a run goes.
  enum Sink {
    case file
    case handle(FileHandle)
  }

  /// Runs a subcommand.
  ///
  /// - Parameters:
  ///   - now: passed as `--now` right after the subcommand; nil for the machine's clock.
  ///   - input: standard input.
  ///   - wrapper: a program and its arguments to run the tool by.
  func run(
    _ arguments: String..., now: Int64? = Tool.now, input: Data = Data(), environment: [String: String] = [:],
    wrapper: [String] = [], sink: Sink = .file
  ) async throws -> Run {
    try await run(
      arguments: arguments, now: now, input: input, environment: environment, wrapper: wrapper, sink: sink)
  }

  func run(
    arguments: [String], now: Int64? = Tool.now, input: Data = Data(), environment: [String: String] = [:],
    wrapper: [String] = [], sink: Sink = .file
  ) async throws -> Run {
    var arguments = arguments
    if let now, !arguments.isEmpty { arguments.insert(contentsOf: ["--now", String(now)], at: 1) }
    let command = wrapper + [Self.executable.path] + arguments
    return try await execute(command, input: input, environment: environment, output: sink)
  }

  /// Runs any program in the working directory, with next to nothing in its environment.
  func execute(
    _ command: [String], input: Data = Data(), environment: [String: String] = [:], output: Sink = .file,
    error: Sink = .file
  ) async throws -> Run {
    // Files, because no pipe can fill up and no other child can hold one open.
    let files = try TemporaryDirectory()
    try input.write(to: files.url("in"))
    let variables = ["COLUMNS": "80", "PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "TZ": "America/Caracas"]
      .merging(ProcessInfo.processInfo.environment.filter { Self.inherited.contains($0.key) }) { $1 }
      .merging(environment) { $1 }
    let standardInput = try FileHandle(forReadingFrom: files.url("in"))
    let standardOutput = try handle(output, files.url("out"))
    let standardError = try handle(error, files.url("err"))
    // Process keeps them for longer than it runs. With more than a thousand open, its next run may read beyond what it
    // has of the list of them.
    defer {
      try? standardInput.close()
      if case .file = output { try? standardOutput.close() }
      if case .file = error { try? standardError.close() }
    }
    let child = try ChildProcess(
      ["/usr/bin/env"] + command, in: directory.url(""), environment: variables, input: standardInput,
      output: standardOutput, errors: standardError)
    let status = await child.ended()
    func content(_ sink: Sink, _ name: String) throws -> Data {
      if case .file = sink { try Data(contentsOf: files.url(name)) } else { Data() }
    }
    return Run(
      status: status, output: try content(output, "out"),
      error: String(decoding: try content(error, "err"), as: UTF8.self))
  }

  /// Of this process's environment: what sanitizers are to do, and which mutant is.
  private static let inherited: Set = ["ASAN_OPTIONS", "TSAN_OPTIONS", "PLANTED_MUTANT"]

  private func handle(_ sink: Sink, _ url: URL) throws -> FileHandle {
    switch sink {
    case .file: try Self.create(url)
    case .handle(let handle): handle
    }
  }

  private static func create(_ url: URL) throws -> FileHandle {
    try Data().write(to: url)
    return try FileHandle(forWritingTo: url)
  }

  /// Stores a blob in `cache` and expects that to succeed.
  func store(_ payload: String, for key: String, _ options: String...) async throws {
    let run = try await run(arguments: ["store"] + options + ["--", "cache", key], input: Data(payload.utf8))
    guard run.status == 0 else { throw Failure(message: run.error) }
  }

  struct Failure: Error {
    let message: String
  }

  /// Changes one byte of a file.
  func damage(_ file: String, at offset: Int) throws {
    var bytes = try Data(contentsOf: directory.url(file))
    bytes[offset] ^= 0xFF
    try bytes.write(to: directory.url(file))
  }

  /// Makes a file with this content, and the directory it lies in.
  func create(_ file: String, _ content: String = "") throws {
    let url = directory.url(file)
    try FileManager.default.createDirectory(at: url.deletingLastPathComponent(), withIntermediateDirectories: true)
    try Data(content.utf8).write(to: url)
  }
}
