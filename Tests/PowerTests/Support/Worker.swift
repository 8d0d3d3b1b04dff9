import BlobStore
import FaultOperations
import Foundation
import Synchronization
import TestSupport

/// A process that works on a cache, one operation after the other, and may die of it.
final class Worker {
  private let process: ChildProcess
  private let input: FileHandle
  private let output: FileHandle
  private var unread = Data()

  /// - Parameters:
  ///   - packs: whether small records lie in packs.
  ///   - plant: a bug, by its name in `faultprobe`.
  ///   - launcher: a program that starts the worker, with its arguments.
  init(
    _ directory: String, _ durability: BlobStore.Durability, packs: Bool = false, plant: String? = nil,
    by launcher: [String] = []
  ) throws {
    Self.ignoreBrokenPipes
    let (input, output) = (Pipe(), Pipe())
    let options =
      ["--durability", durability.rawValue, "--packs", "\(packs)"] + (plant.map { ["--plant", $0] } ?? [])
    // To die of a signal is no news here.
    process = try ChildProcess(
      launcher + [Programs.built("faultprobe").path, directory] + options + ["serve"],
      adding: ["SWIFT_BACKTRACE": "enable=no"],
      input: input, output: output, errors: FileHandle.standardError)
    self.input = input.fileHandleForWriting
    self.output = output.fileHandleForReading
    // Else the worker's death would not end the pipes.
    try input.fileHandleForReading.close()
    try output.fileHandleForWriting.close()
  }

  deinit { kill() }

  /// A pipe whose reader is dead is an error to handle, not a reason to die.
  private static let ignoreBrokenPipes: Void = { _ = signal(SIGPIPE, SIG_IGN) }()

  /// - Returns: nil if the worker does not live to answer.
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

  /// How it died.
  var death: String {
    let status = process.wait()
    return status > 128 ? "signal \(status - 128)" : "exit \(status)"
  }

  /// Ends it and waits for that.
  func kill() { process.kill() }
}
