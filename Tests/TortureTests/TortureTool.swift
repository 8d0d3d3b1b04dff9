import Foundation
import TestSupport

/// The `torture` executable that was built beside these tests.
struct TortureTool {
  struct Output {
    var exitStatus: Int32
    var report: [String: Any]
    var errors: String

    func count(_ name: String) -> Int { (report[name] as? NSNumber)?.intValue ?? -1 }
  }

  enum Failure: Error {
    case notBuilt(String)
    case noReport(status: Int32, errors: String)
  }

  /// Runs it in a directory of its own, which is removed.
  static func run(_ arguments: [String]) throws -> Output {
    let directory = try TemporaryDirectory()
    let (status, text, errors) = try start(arguments + ["--directory", directory.url("run").path], directory)
    guard let report = try? JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any] else {
      throw Failure.noReport(status: status, errors: errors)
    }
    print("torture \(arguments.joined(separator: " ")): \(text)")
    return Output(exitStatus: status, report: report, errors: errors)
  }

  /// What it prints.
  static func lines(_ arguments: [String]) throws -> [Substring] {
    let (status, text, errors) = try start(arguments, TemporaryDirectory())
    guard status == 0 else { throw Failure.noReport(status: status, errors: errors) }
    return text.split(separator: "\n")
  }

  private static func start(
    _ arguments: [String], _ directory: TemporaryDirectory
  ) throws -> (status: Int32, output: String, errors: String) {
    let process = Process()
    process.executableURL = try executable()
    process.arguments = arguments
    // In a build for coverage, a process that is killed while it writes what it has run would spoil what others wrote.
    process.environment = ProcessInfo.processInfo.environment.merging(["LLVM_PROFILE_FILE": "/dev/null"]) { $1 }
    let output = directory.url("stdout")
    let errors = directory.url("stderr")
    for file in [output, errors] { try Data().write(to: file) }
    process.standardOutput = try FileHandle(forWritingTo: output)
    process.standardError = try FileHandle(forWritingTo: errors)
    try process.run()
    process.waitUntilExit()
    func text(_ file: URL) throws -> String { String(decoding: try Data(contentsOf: file), as: UTF8.self) }
    return (process.terminationStatus, try text(output), try text(errors))
  }

  private static func executable() throws -> URL {
    // On Linux the tests are a program beside it; on Darwin a bundle beside it, in a program of the toolchain's.
    let places = ([Bundle.main] + Bundle.allBundles).flatMap { [$0.bundleURL, $0.executableURL].compactMap { $0 } }
    for place in places {
      for directory in [place, place.deletingLastPathComponent()] {
        let candidate = directory.appending(path: "torture")
        if FileManager.default.isExecutableFile(atPath: candidate.path), !candidate.hasDirectoryPath {
          return candidate
        }
      }
    }
    throw Failure.notBuilt("\(places)")
  }
}
