import Foundation
import SystemPackage
import Workbench

/// The throughput of two processes on one directory, relative to one process.
struct TwoProcesses {
  /// Times in seconds.
  private struct Times {
    let elapsed, processor: Double
  }

  private let workers: [WorkerProcess]
  private let plan: PackPlan

  init(_ plan: PackPlan) throws {
    let directory = plan.directory.appending("processes")
    try PackWorker.prepare(directory, residents: residents(plan))
    workers = try (0..<2).map { _ in try WorkerProcess(["--work", directory.string]) }
    self.plan = plan
  }

  func measured() throws -> [PackFigure] { try PackTask.allCases.flatMap(figures) }

  private func figures(_ task: PackTask) throws -> [PackFigure] {
    var (ratios, processorRatios): ([Double], [Double]) = ([], [])
    for round in 0...min(plan.rounds, 15) {
      var times: [[Times]] = [[], []]
      for index in turns(of: 2, in: round) {
        let chosen = workers.prefix(index + 1)
        let operations = plan.isQuick ? 200 : task.operations
        for worker in chosen { try worker.send("\(task.rawValue) \(operations) \(residents(plan))") }
        times[index] = try chosen.map { worker in
          let numbers = try worker.numbers(2)
          return Times(elapsed: numbers[0], processor: numbers[1])
        }
      }
      // The first round opens the directory.
      guard round > 0 else { continue }
      let (one, two) = (times[0][0], times[1])
      ratios.append(2 * one.elapsed / max(two[0].elapsed, two[1].elapsed))
      processorRatios.append(2 * one.processor / ((two[0].processor + two[1].processor) / 2))
    }
    return [
      PackFigure("twoProcesses-\(task)", "two processes to one, \(task.title)", ratios),
      PackFigure(
        "twoProcesses-\(task)-processor", "two processes to one, \(task.title), by processor time", processorRatios),
    ]
  }
}

private func residents(_ plan: PackPlan) -> Int { plan.isQuick ? 500 : 100_000 }
