import BlobStore
import Foundation
import Measuring
import SystemPackage
import Workbench

/// Measures the cost of a use in a memory hit and in a disk load, in one process and in two concurrent processes.
struct UseCosts {
  private let workers: [WorkerProcess]
  private let rounds: Int

  init(in directory: FilePath, rounds: Int) throws {
    try UseWorker.prepare(directory)
    workers = try (0..<2).map { _ in try WorkerProcess(in: directory) }
    self.rounds = rounds
  }

  func measured() throws -> [Cost] {
    try UseTask.allCases.flatMap { task in try (1...workers.count).map { try cost(task, processes: $0) } }
  }

  private func cost(_ task: UseTask, processes: Int) throws -> Cost {
    var times: [BlobStore.Eviction: [Double]] = [:]
    for round in 0...rounds {
      for index in turns(of: BlobStore.Eviction.allCases.count, in: round) {
        let eviction = BlobStore.Eviction.allCases[index]
        let chosen = workers.prefix(processes)
        for worker in chosen { try worker.begin(task, eviction) }
        let sum = try chosen.map { try $0.time() }.reduce(0, +)
        // The first round reads the records into memory.
        if round > 0 { times[eviction, default: []].append(sum / Double(processes)) }
      }
    }
    let (oldest, frequency) = (times[.oldest] ?? [], times[.frequency] ?? [])
    let isRatio = task == .disk
    let values = zip(frequency, oldest).map { isRatio ? $0 / $1 : $0 - $1 }
    return Cost(
      place:
        "\(task == .disk ? "a load from disk" : "a hit in memory"), \(processes == 1 ? "one process" : "two processes")",
      times: String(
        format: "oldest %.0f ns, frequency %.0f ns", Quartiles(of: oldest).median, Quartiles(of: frequency).median),
      value: Quartiles(of: values).median, limit: isRatio ? 1.01 : 15, isRatio: isRatio)
  }
}

/// The parent's side of a worker process.
private final class WorkerProcess {
  private let process = Process()
  private let input = Pipe()
  private let output = Pipe()

  init(in directory: FilePath) throws {
    process.executableURL = Bundle.main.executableURL
    process.arguments = ["--work", directory.string]
    process.standardInput = input
    process.standardOutput = output
    try process.run()
  }

  deinit {
    // The worker exits at the end of its input.
    try? input.fileHandleForWriting.close()
    process.waitUntilExit()
  }

  func begin(_ task: UseTask, _ eviction: BlobStore.Eviction) throws {
    try input.fileHandleForWriting.write(contentsOf: Data("\(task.rawValue) \(eviction.rawValue)\n".utf8))
  }

  /// - Returns: The time in nanoseconds.
  func time() throws -> Double {
    var line = Data()
    while let byte = try output.fileHandleForReading.read(upToCount: 1), byte.first != 0x0A { line += byte }
    guard let time = Double(String(decoding: line, as: UTF8.self)) else {
      throw BenchmarkFailure("a process has ended that should have loaded")
    }
    return time
  }
}
