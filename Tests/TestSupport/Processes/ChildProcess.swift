public import Foundation

/// A program that a test runs as a process of its own.
///
/// A build for coverage lets each process write down what it has run. A child does not: killed while it writes, it would spoil
/// what others wrote.
public final class ChildProcess: Sendable {
  private let process: Process
  private let statuses: AsyncStream<Int32>

  /// Starts a program.
  ///
  /// - Parameters:
  ///   - command: the program, by its path or the name of an installed one, and its arguments.
  ///   - environment: all of it; nil passes on this process's own.
  ///   - variables: added to the environment.
  ///   - input: a `FileHandle` or a `Pipe`, as `output` and `errors` are.
  ///   - whenEnded: called with the status, before anything that waits for the end goes on.
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

  /// As shells count it: the exit status, or 128 and the number of the signal that ended it.
  private static func status(of process: Process) -> Int32 {
    process.terminationReason == .exit ? process.terminationStatus : 128 + process.terminationStatus
  }

  public var isRunning: Bool { process.isRunning }

  public func send(_ signal: Int32) {
    guard process.isRunning else { return }
    Foundation.kill(process.processIdentifier, signal)
  }

  /// Ends it and waits for that.
  public func kill() {
    guard process.isRunning else { return }
    send(SIGKILL)
    process.waitUntilExit()
  }

  /// Waits for its end, and blocks the thread.
  ///
  /// - Returns: as shells count it: the exit status, or 128 and the number of the signal that ended it.
  @discardableResult
  public func wait() -> Int32 {
    process.waitUntilExit()
    return Self.status(of: process)
  }

  /// Waits for its end; to be called once. The status is that of `wait()`.
  public func ended() async -> Int32 {
    for await status in statuses { return status }
    return wait()
  }
}

extension ChildProcess {
  /// What a program that has ended left.
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

  /// Runs a program to its end, and blocks the thread.
  ///
  /// - Parameter input: what it reads.
  public static func run(
    _ command: [String], in directory: URL? = nil, environment: [String: String]? = nil,
    adding variables: [String: String] = [:], input: Data = Data()
  ) throws -> Result {
    // Files, because no pipe can fill up and no other child can hold one open.
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

  /// Runs a program that has to succeed.
  @discardableResult
  public static func runSuccessfully(
    _ command: [String], environment: [String: String]? = nil, input: Data = Data()
  ) throws -> Result {
    let result = try run(command, environment: environment, input: input)
    guard result.status == 0 else { throw Failed(command: command, result: result) }
    return result
  }
}
