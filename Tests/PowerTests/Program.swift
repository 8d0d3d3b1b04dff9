import Foundation

/// Programs that tests run.
enum Program {
  struct Failed: Error, CustomStringConvertible {
    let command: String
    let status: Int32
    let output: String

    var description: String { "\(command) ends with \(status): \(output)" }
  }

  /// One of the system's; nil if it is not installed.
  static func path(_ name: String) -> String? {
    let directories =
      (ProcessInfo.processInfo.environment["PATH"] ?? "").split(separator: ":") + [
        "/usr/sbin", "/sbin", "/usr/bin", "/bin",
      ]
    return directories.map { "\($0)/\(name)" }.first { FileManager.default.isExecutableFile(atPath: $0) }
  }

  /// One that the build puts beside the tests.
  static func built(_ name: String) -> String {
    let tests = (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")) ?? ""
    return URL(filePath: tests).deletingLastPathComponent().appending(path: name).path
  }

  /// Runs a program of the system to its end.
  static func run(_ name: String, _ arguments: [String]) throws {
    let process = Process()
    process.executableURL = URL(filePath: path(name) ?? name)
    process.arguments = arguments
    let output = Pipe()
    process.standardOutput = output
    process.standardError = output
    try process.run()
    let text = output.fileHandleForReading.readDataToEndOfFile()
    process.waitUntilExit()
    guard process.terminationStatus == 0 else {
      throw Failed(
        command: ([name] + arguments).joined(separator: " "), status: process.terminationStatus,
        output: String(decoding: text, as: UTF8.self))
    }
  }
}
