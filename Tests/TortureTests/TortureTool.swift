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
    let process = Process()
    process.executableURL = try executable()
    process.arguments = arguments + ["--directory", directory.url("run").path]
    let output = directory.url("stdout")
    let errors = directory.url("stderr")
    for file in [output, errors] { try Data().write(to: file) }
    process.standardOutput = try FileHandle(forWritingTo: output)
    process.standardError = try FileHandle(forWritingTo: errors)
    try process.run()
    process.waitUntilExit()
    let text = String(decoding: try Data(contentsOf: errors), as: UTF8.self)
    guard let report = try? JSONSerialization.jsonObject(with: Data(contentsOf: output)) as? [String: Any] else {
      throw Failure.noReport(status: process.terminationStatus, errors: text)
    }
    print(
      "torture \(arguments.joined(separator: " ")): \(String(decoding: try Data(contentsOf: output), as: UTF8.self))")
    return Output(exitStatus: process.terminationStatus, report: report, errors: text)
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
