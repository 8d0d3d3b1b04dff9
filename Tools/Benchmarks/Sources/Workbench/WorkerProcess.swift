internal import Foundation

/// A process of the same program that works for this one, and answers with lines of numbers.
package final class WorkerProcess {
  private let process = Process()
  private let input = Pipe()
  private let output = Pipe()

  package init(_ arguments: [String]) throws {
    process.executableURL = Bundle.main.executableURL
    process.arguments = arguments
    process.standardInput = input
    process.standardOutput = output
    try process.run()
  }

  deinit {
    // The worker exits at the end of its input.
    try? input.fileHandleForWriting.close()
    process.waitUntilExit()
  }

  package func send(_ line: String) throws {
    try input.fileHandleForWriting.write(contentsOf: Data((line + "\n").utf8))
  }

  /// Waits for the next line, which consists of this many numbers.
  package func numbers(_ count: Int) throws -> [Double] {
    var line = Data()
    while let byte = try output.fileHandleForReading.read(upToCount: 1), byte.first != 0x0A { line += byte }
    let numbers = String(decoding: line, as: UTF8.self).split(separator: " ").compactMap { Double($0) }
    try BenchmarkFailure.require(numbers.count == count, "a process has ended that should have worked")
    return numbers
  }

  /// Ends the input, and waits until the worker has exited with success.
  package func end() throws {
    try input.fileHandleForWriting.close()
    process.waitUntilExit()
    try BenchmarkFailure.require(process.terminationStatus == 0, "a process has failed")
  }
}
