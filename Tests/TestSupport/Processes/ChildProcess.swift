public import Foundation
internal import Locks

#if canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#elseif canImport(Android)
  internal import Android
#elseif canImport(Darwin)
  internal import Darwin
#endif

/// A program that a test runs as a separate process.
///
/// Foundation's `Process` is not used, because it ends a program that has more than 1,300 open files on Linux, by reading
/// beyond the entries of /proc/self/fd (swift-corelibs-foundation, pull request 5472).
///
/// With coverage, each process writes a profile at its end. Children do not, because one that is killed while it
/// writes would corrupt the profiles of other processes.
public final class ChildProcess: Sendable {
  private let identifier: pid_t
  private let end = End()
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
    let environment = (environment ?? ProcessInfo.processInfo.environment)
      .merging(["LLVM_PROFILE_FILE": "/dev/null"]) { $1 }
      .merging(variables) { $1 }
    let program = command[0].contains("/") ? command[0] : Programs.installed(command[0]) ?? command[0]
    var spawn = Spawn()
    spawn.open(0, input)
    spawn.open(1, output)
    spawn.open(2, errors)
    identifier = try spawn.run(
      program, command, environment: environment.map { "\($0)=\($1)" }, in: directory?.path(percentEncoded: false))
    let (statuses, ended) = AsyncStream<Int32>.makeStream()
    self.statuses = statuses
    Thread.detachNewThread { [identifier, end] in
      let status = end.reap(identifier)
      whenEnded(status)
      ended.yield(status)
      ended.finish()
      end.hasCome.signal()
    }
  }

  deinit { kill() }

  private final class End: Sendable {
    /// The status of a process that has ended. The process is reaped while this is locked, so that no signal goes to
    /// another process with the same number.
    let status = Lock<Int32?>(nil)
    let hasCome = DispatchSemaphore(value: 0)

    /// Waits for the end of a process.
    ///
    /// - Returns: The exit status, or 128 and the number of the signal that ended the process.
    func reap(_ identifier: pid_t) -> Int32 {
      var information = siginfo_t()
      while waitid(P_PID, id_t(identifier), &information, WEXITED | WNOWAIT) == -1, errno == EINTR {}
      return status.withLock { status in
        var word: Int32 = 0
        while waitpid(identifier, &word, 0) == -1, errno == EINTR {}
        let code = Spawn.status(of: word)
        status = code
        return code
      }
    }
  }

  public var isRunning: Bool { end.status.withLock { $0 == nil } }

  public func send(_ signal: Int32) {
    end.status.withLock { if $0 == nil { _ = Foundation.kill(identifier, signal) } }
  }

  /// Kills the process and waits for its end.
  public func kill() {
    guard isRunning else { return }
    send(SIGKILL)
    wait()
  }

  /// Waits for the end, blocking the thread.
  ///
  /// - Returns: The exit status, or 128 and the number of the signal that ended the process.
  @discardableResult
  public func wait() -> Int32 {
    end.hasCome.wait()
    // For the next caller.
    end.hasCome.signal()
    return end.status.withLock { $0! }
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
