import BlobStore
import FaultOperations
import Foundation
import Synchronization
import TestSupport

/// A process that runs operations on a cache one after the other, and may be killed.
final class Worker {
  private let process: ChildProcess
  private let input: FileHandle
  private let output: FileHandle
  private var unread = Data()

  /// - Parameters:
  ///   - packs: A Boolean value that indicates whether small records are stored in packs.
  ///   - plant: A planted bug, by its name in `faultprobe`.
  ///   - launcher: A program that starts the worker, with its arguments.
  init(
    _ directory: String, _ durability: BlobStore.Durability, packs: Bool = false, plant: String? = nil,
    by launcher: [String] = []
  ) throws {
    Self.ignoreBrokenPipes
    let (input, output) = (Pipe(), Pipe())
    let options =
      ["--durability", durability.rawValue, "--packs", "\(packs)"] + (plant.map { ["--plant", $0] } ?? [])
    // Death by a signal is expected and not reported.
    process = try ChildProcess(
      launcher + [Programs.built("faultprobe").path, directory] + options + ["serve"],
      adding: ["SWIFT_BACKTRACE": "enable=no"],
      input: input, output: output, errors: FileHandle.standardError)
    self.input = input.fileHandleForWriting
    self.output = output.fileHandleForReading
    // Otherwise the worker's death would not close the pipes.
    try input.fileHandleForReading.close()
    try output.fileHandleForWriting.close()
  }

  deinit { kill() }

  /// A broken pipe is an error to handle instead of a signal that ends the process.
  private static let ignoreBrokenPipes: Void = { _ = signal(SIGPIPE, SIG_IGN) }()

  /// - Returns: The result, or `nil` if the worker ended before it could answer.
  func run(_ operation: FaultOperation) -> OperationResult? {
    let line = Data((operation.arguments.joined(separator: " ") + "\n").utf8)
    guard (try? input.write(contentsOf: line)) != nil else { return nil }
    while true {
      if let end = unread.firstIndex(of: UInt8(ascii: "\n")) {
        let answer = unread[..<end]
        unread = Data(unread[(end + 1)...])
        return try? JSONDecoder().decode(OperationResult.self, from: answer)
      }
      let more = output.availableData
      guard !more.isEmpty else { return nil }
      unread += more
    }
  }

  /// The exit status or signal of the worker.
  var death: String {
    let status = process.wait()
    return status > 128 ? "signal \(status - 128)" : "exit \(status)"
  }

  /// Kills the worker and waits for its end.
  func kill() { process.kill() }
}
