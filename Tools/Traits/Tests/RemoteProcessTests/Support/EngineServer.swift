import Foundation
import Synchronization

/// A third-party server process in a temporary directory. It ends with the test process, even after a crash.
final class EngineServer: Sendable {
  /// The directory of the server and its log, which is removed at the end.
  let directory: URL
  let processIdentifier: pid_t
  /// A pipe whose closing ends the server. The system closes it when the test process dies.
  private let lifeline: FileHandle
  private let isKilled = Atomic(false)

  /// - Parameters:
  ///   - command: The program's path and its arguments, for a directory.
  ///   - isReady: The condition that is polled until it is true.
  init(
    _ kind: String, _ command: (URL) throws -> [String], isReady: (EngineServer) async throws -> Bool
  ) async throws {
    directory = FileManager.default.temporaryDirectory.appending(path: "\(kind)-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
    let (input, output) = (Pipe(), Pipe())
    let process = Process()
    process.executableURL = URL(filePath: "/bin/sh")
    process.arguments =
      ["-c", #""$@" </dev/null >"$0" 2>&1 & echo $!; read -r _; kill -9 $!"#, directory.appending(path: "log").path]
      + (try command(directory))
    process.standardInput = input
    process.standardOutput = output
    try process.run()
    try input.fileHandleForReading.close()
    lifeline = input.fileHandleForWriting
    var line = Data()
    while line.last != UInt8(ascii: "\n") {
      guard let byte = try output.fileHandleForReading.read(upToCount: 1), !byte.isEmpty else { break }
      line.append(byte)
    }
    guard let identifier = pid_t(String(decoding: line.dropLast(), as: UTF8.self)) else {
      throw Failure("\(kind) does not start")
    }
    processIdentifier = identifier
    let end = ContinuousClock.now + .seconds(120)
    while try await !isReady(self) {
      guard ContinuousClock.now < end, isRunning else { throw Failure("\(kind) is not ready: \(log)") }
      try await Task.sleep(for: .milliseconds(50))
    }
  }

  deinit { kill() }

  var isRunning: Bool { Foundation.kill(processIdentifier, 0) == 0 }

  var log: String {
    let text = (try? String(contentsOf: directory.appending(path: "log"), encoding: .utf8)) ?? ""
    return String(text.suffix(2000))
  }

  func send(_ signal: Int32) { Foundation.kill(processIdentifier, signal) }

  func kill() {
    guard !isKilled.exchange(true, ordering: .relaxed) else { return }
    try? lifeline.close()
    let end = ContinuousClock.now + .seconds(60)
    while isRunning, ContinuousClock.now < end { usleep(5000) }
    try? FileManager.default.removeItem(at: directory)
  }

  /// The ports that this process has reserved.
  private static let givenPorts = Mutex<Set<Int>>([])

  /// Returns free ports of 127.0.0.1, each of which is returned only once.
  ///
  /// They are below the system's ephemeral ports, so no connection takes one before its server listens.
  static func freePorts(_ count: Int) throws -> [Int] {
    try (0..<count).map { _ in
      for _ in 0..<1000 {
        let port = Int.random(in: 10_000..<32_000)
        guard givenPorts.withLock({ $0.insert(port).inserted }) else { continue }
        let socket = Foundation.socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(socket) }
        var address = sockaddr_in.loopback(port)
        let status = withUnsafeMutablePointer(to: &address) {
          $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
            bind(socket, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
          }
        }
        if status == 0 { return port }
      }
      throw Failure("no free port")
    }
  }
}

struct Failure: Error, CustomStringConvertible {
  let description: String

  init(_ description: String) { self.description = description }
}

/// The installed programs for tests: Tools/prerequisites, `try_remote_servers`.
enum Programs {
  /// - Returns: The path of a program in PATH, or in the Python environment of the prerequisites.
  static func path(_ name: String) -> String? {
    let folders = (ProcessInfo.processInfo.environment["PATH"] ?? "").split(separator: ":").map { String($0) }
    var build = Bundle.main.bundleURL
    while build.lastPathComponent != ".build", build.path != "/" { build.deleteLastPathComponent() }
    return (folders + ["/usr/sbin", build.appending(path: "remote-venv/bin").path]).map { "\($0)/\(name)" }
      .first { FileManager.default.isExecutableFile(atPath: $0) }
  }

  /// - Throws: `Failure` if the program is not installed.
  static func required(_ name: String) throws -> String {
    guard let path = path(name) else { throw Failure("there is no \(name)") }
    return path
  }

  /// Runs a program until it exits.
  static func run(
    _ command: [String], environment: [String: String] = [:]
  ) async throws -> (status: Int32, output: Data, errors: String) {
    let files = try (0..<2).map { _ in
      let url = FileManager.default.temporaryDirectory.appending(path: UUID().uuidString)
      try Data().write(to: url)
      return url
    }
    defer { for file in files { try? FileManager.default.removeItem(at: file) } }
    let process = Process()
    process.executableURL = URL(filePath: command[0])
    process.arguments = Array(command.dropFirst())
    process.environment = ProcessInfo.processInfo.environment.merging(environment) { $1 }
    process.standardOutput = try FileHandle(forWritingTo: files[0])
    process.standardError = try FileHandle(forWritingTo: files[1])
    let status = try await withCheckedThrowingContinuation { continuation in
      process.terminationHandler = { continuation.resume(returning: $0.terminationStatus) }
      do { try process.run() } catch { continuation.resume(throwing: error) }
    }
    return (status, try Data(contentsOf: files[0]), String(decoding: try Data(contentsOf: files[1]), as: UTF8.self))
  }
}

func eventually(
  _ what: String, within time: Duration = .seconds(120), _ condition: () async throws -> Bool
) async throws {
  let end = ContinuousClock.now + time
  while try await !condition() {
    guard ContinuousClock.now < end else { throw Failure("it has not happened within \(time): \(what)") }
    try await Task.sleep(for: .milliseconds(10))
  }
}
