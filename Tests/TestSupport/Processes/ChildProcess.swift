public import Foundation

/// A program that a test runs as a separate process.
///
/// With coverage, each process writes a profile at its end. Children do not, because one that is killed while it
/// writes would corrupt the profiles of other processes.
public final class ChildProcess: Sendable {
  private let process: Process
  private let statuses: AsyncStream<Int32>

  /// Starts a program.
  ///
  /// - Parameters:
  ///   - command: The path or name of an installed program, and its arguments.
  ///   - environment: The complete environment, or `nil` for the environment of this process.
  ///   - variables: Additional environment variables.
  ///   - input: A `FileHandle` or a `Pipe`, like `output` and `errors`.
  ///   - whenEnded: A closure called with the status, before any wait for the end returns.
  public init(
    _ command: [String], in directory: URL? = nil, environment: [String: String]? = nil,
    adding variables: [String: String] = [:], input: Any = FileHandle.nullDevice,
    output: Any = FileHandle.nullDevice, errors: Any = FileHandle.nullDevice,
    whenEnded: @escaping @Sendable (_ status: Int32) -> Void = { _ in }
  ) throws {
    let process = Process()
    let (statuses, ended) = AsyncStream<Int32>.makeStream()
    let program = command[0].contains("/") ? command[0] : Programs.installed(command[0]) ?? command[0]
    process.executableURL = URL(filePath: program)
    process.arguments = Array(command.dropFirst())
    if let directory { process.currentDirectoryURL = directory }
    process.environment = (environment ?? ProcessInfo.processInfo.environment)
      .merging(["LLVM_PROFILE_FILE": "/dev/null"]) { $1 }
      .merging(variables) { $1 }
    process.standardInput = input
    process.standardOutput = output
    process.standardError = errors
    process.terminationHandler = { process in
      let status = Self.status(of: process)
      whenEnded(status)
      ended.yield(status)
      ended.finish()
    }
    try process.run()
    self.process = process
    self.statuses = statuses
  }

  deinit { kill() }

  /// Returns the exit status, or 128 and the number of the signal that ended the process.
  private static func status(of process: Process) -> Int32 {
    process.terminationReason == .exit ? process.terminationStatus : 128 + process.terminationStatus
  }

  public var isRunning: Bool { process.isRunning }

  public func send(_ signal: Int32) {
    guard process.isRunning else { return }
    Foundation.kill(process.processIdentifier, signal)
  }

  /// Kills the process and waits for its end.
  public func kill() {
    guard process.isRunning else { return }
    send(SIGKILL)
    process.waitUntilExit()
  }

  /// Waits for the end, blocking the thread.
  ///
  /// - Returns: The exit status, or 128 and the number of the signal that ended the process.
  @discardableResult
  public func wait() -> Int32 {
    process.waitUntilExit()
    return Self.status(of: process)
  }

  /// Waits for the end and returns the status like `wait()`; it must be called only once.
  public func ended() async -> Int32 {
    for await status in statuses { return status }
    return wait()
  }
}

extension ChildProcess {
  /// The status and the output of a program that has ended.
  public struct Result: Sendable {
    public let status: Int32
    public let output: Data
    public let errors: Data

    public var text: String { String(decoding: output, as: UTF8.self) }
    public var message: String { String(decoding: errors, as: UTF8.self) }
  }

  public struct Failed: Error, CustomStringConvertible {
    public let command: [String]
    public let result: Result

    public var description: String {
      "\(command.joined(separator: " ")) ends with \(result.status): \(result.text)\(result.message)"
    }
  }

  /// Runs a program to its end, blocking the thread.
  ///
  /// - Parameter input: The standard input of the program.
  public static func run(
    _ command: [String], in directory: URL? = nil, environment: [String: String]? = nil,
    adding variables: [String: String] = [:], input: Data = Data()
  ) throws -> Result {
    // Files, because a pipe can fill up or be held open by another child.
    let files = try TemporaryDirectory()
    for name in ["output", "errors"] { try Data().write(to: files.url(name)) }
    try input.write(to: files.url("input"))
    let handles = [
      try FileHandle(forReadingFrom: files.url("input")), try FileHandle(forWritingTo: files.url("output")),
      try FileHandle(forWritingTo: files.url("errors")),
    ]
    let child = try ChildProcess(
      command, in: directory, environment: environment, adding: variables, input: handles[0], output: handles[1],
      errors: handles[2])
    let status = child.wait()
    for handle in handles { try handle.close() }
    return Result(
      status: status, output: try Data(contentsOf: files.url("output")),
      errors: try Data(contentsOf: files.url("errors")))
  }

  /// Runs a program and throws an error unless it succeeds.
  @discardableResult
  public static func runSuccessfully(
    _ command: [String], environment: [String: String]? = nil, input: Data = Data()
  ) throws -> Result {
    let result = try run(command, environment: environment, input: input)
    guard result.status == 0 else { throw Failed(command: command, result: result) }
    return result
  }
}
