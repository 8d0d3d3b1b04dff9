import BlobStore
import Foundation
import SystemPackage
import TestSupport

/// The built executable, run as a separate process in a temporary directory with a fixed time.
struct Tool {
  /// The working directory, which contains `cache`.
  let directory: TemporaryDirectory

  /// The current time of the tool.
  static let now: Int64 = 1_700_000_000

  /// - Parameter storesFiles: A Boolean value that indicates whether to create `cache` with a file for each record.
  init(inMemory: Bool = false, storesFiles: Bool = false) throws {
    directory = try TemporaryDirectory(inMemory: inMemory)
    if storesFiles { try storeFiles() }
  }

  /// Creates `cache` as a directory that stores a file for each record.
  func storeFiles() throws {
    let cache = directory.url("cache")
    try FileManager.default.createDirectory(
      at: cache, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o700])
    try BlobStore.changeSettings(of: FilePath(cache.path)) { $0.packing = .off }
  }

  static let executable = Programs.built("blobcache")

  /// The result of a run.
  struct Run {
    let status: Int32
    let output: Data
    let error: String

    var text: String { String(decoding: output, as: UTF8.self) }

    /// Returns the lines of a `--json` run.
    func objects() throws -> [[String: JSONValue]] {
      try text.split(separator: "\n").map { try JSONDecoder().decode([String: JSONValue].self, from: Data($0.utf8)) }
    }
  }

  /// The destination of a run's standard output or error.
  enum Sink {
    case file
    case handle(FileHandle)
  }

  /// Runs a subcommand.
  ///
  /// - Parameters:
  ///   - now: The time for `--now`, or `nil` for the machine's clock.
  ///   - input: The standard input.
  ///   - wrapper: A program and its arguments that run the tool.
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

  /// Runs any program in the working directory with a minimal environment.
  func execute(
    _ command: [String], input: Data = Data(), environment: [String: String] = [:], output: Sink = .file,
    error: Sink = .file
  ) async throws -> Run {
    // Files are used because pipes can fill up, and another child could keep them open.
    let files = try TemporaryDirectory()
    try input.write(to: files.url("in"))
    let variables = ["COLUMNS": "80", "PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "TZ": "America/Caracas"]
      .merging(ProcessInfo.processInfo.environment.filter { Self.inherited.contains($0.key) }) { $1 }
      .merging(environment) { $1 }
    let standardInput = try FileHandle(forReadingFrom: files.url("in"))
    let standardOutput = try handle(output, files.url("out"))
    let standardError = try handle(error, files.url("err"))
    // Foundation's `Process` retains the handles for longer than it runs. With more than a thousand open, its next run
    // may read beyond its list of descriptors.
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

  /// Inherited variables of this process: options of sanitizers, and the current mutant.
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

  /// Stores a blob in `cache` and expects success.
  func store(_ payload: String, for key: String, _ options: String...) async throws {
    let run = try await run(arguments: ["store"] + options + ["--", "cache", key], input: Data(payload.utf8))
    guard run.status == 0 else { throw Failure(message: run.error) }
  }

  struct Failure: Error {
    let message: String
  }

  func damage(_ file: String, at offset: Int) throws {
    var bytes = try Data(contentsOf: directory.url(file))
    bytes[offset] ^= 0xFF
    try bytes.write(to: directory.url(file))
  }

  /// Creates a file with this content, and its parent directory.
  func create(_ file: String, _ content: String = "") throws {
    let url = directory.url(file)
    try FileManager.default.createDirectory(at: url.deletingLastPathComponent(), withIntermediateDirectories: true)
    try Data(content.utf8).write(to: url)
  }
}
