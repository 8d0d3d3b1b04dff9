import Foundation
import SystemPackage
import Workbench

/// The throughput of two processes on one directory, relative to one process.
struct TwoProcesses {
  private let workers: [WorkerProcess]
  private let plan: PackPlan

  init(_ plan: PackPlan) throws {
    let directory = plan.directory.appending("processes")
    try PackWorker.prepare(directory, residents: residents(plan))
    workers = try (0..<2).map { _ in try WorkerProcess(in: directory) }
    self.plan = plan
  }

  func measured() throws -> [PackFigure] { try PackTask.allCases.flatMap(figures) }

  private func figures(_ task: PackTask) throws -> [PackFigure] {
    var (ratios, processorRatios): ([Double], [Double]) = ([], [])
    for round in 0...min(plan.rounds, 15) {
      var times: [[WorkerProcess.Times]] = [[], []]
      for index in turns(of: 2, in: round) {
        let chosen = workers.prefix(index + 1)
        for worker in chosen { try worker.begin(task, plan.isQuick ? 200 : task.operations, residents(plan)) }
        times[index] = try chosen.map { try $0.times() }
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

/// The parent's side of a worker process.
private final class WorkerProcess {
  /// Times in seconds.
  struct Times {
    let elapsed, processor: Double
  }

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

  func begin(_ task: PackTask, _ operations: Int, _ residents: Int) throws {
    try input.fileHandleForWriting.write(contentsOf: Data("\(task.rawValue) \(operations) \(residents)\n".utf8))
  }

  func times() throws -> Times {
    var line = Data()
    while let byte = try output.fileHandleForReading.read(upToCount: 1), byte.first != 0x0A { line += byte }
    let numbers = String(decoding: line, as: UTF8.self).split(separator: " ").compactMap { Double($0) }
    guard numbers.count == 2 else { throw BenchmarkFailure("a process has ended that should have worked") }
    return Times(elapsed: numbers[0], processor: numbers[1])
  }
}
