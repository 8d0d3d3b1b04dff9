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
    workers = try (0..<2).map { _ in try WorkerProcess(["--work", directory.string]) }
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
        for worker in chosen { try worker.send("\(task.rawValue) \(eviction.rawValue)") }
        let sum = try chosen.map { try $0.numbers(1)[0] }.reduce(0, +)
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
