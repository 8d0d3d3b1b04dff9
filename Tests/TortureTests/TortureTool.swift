import Foundation
import TestSupport

/// The `torture` executable, which was built next to these tests.
struct TortureTool {
  struct Output {
    var exitStatus: Int32
    var report: [String: Any]
    var errors: String

    func count(_ name: String) -> Int { (report[name] as? NSNumber)?.intValue ?? -1 }
  }

  enum Failure: Error {
    case noReport(status: Int32, errors: String)
  }

  private static let executable = Programs.built("torture").path

  /// Runs the executable in a temporary directory.
  static func run(_ arguments: [String]) throws -> Output {
    let directory = try TemporaryDirectory()
    let result = try ChildProcess.run([executable] + arguments + ["--directory", directory.url("run").path])
    guard let report = try? JSONSerialization.jsonObject(with: result.output) as? [String: Any] else {
      throw Failure.noReport(status: result.status, errors: result.message)
    }
    print("torture \(arguments.joined(separator: " ")): \(result.text)")
    return Output(exitStatus: result.status, report: report, errors: result.message)
  }

  /// Returns the lines of the output.
  static func lines(_ arguments: [String]) throws -> [Substring] {
    let result = try ChildProcess.run([executable] + arguments)
    guard result.status == 0 else { throw Failure.noReport(status: result.status, errors: result.message) }
    return result.text.split(separator: "\n")
  }
}
