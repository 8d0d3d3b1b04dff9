import ArgumentParser
import BlobStore
import Foundation
import SystemPackage
import Workbench

@main
struct BenchmarkCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "benchmark",
    abstract: "Measures the store against the same work in raw system calls.",
    discussion: """
      Both sides take turns in small rounds of one run. Times are medians in microseconds per operation; a ratio is the \
      median of the rounds' ratios, between their quartiles.

      Exit status: 0 done, 1 a threshold was missed (with --check), 2 could not do it, 64 usage.
      """)

  @Option(help: "Measure below this directory, on its file system. (default: $TMPDIR, else .build)")
  var directory: String?

  @Option(help: "Rounds, each of which gives one ratio. (default: 30; with --quick 7)")
  var rounds: Int?

  @Option(help: "Operations a round. (default: 100; with --quick 40; with --trace 1)")
  var operations: Int?

  @Option(parsing: .upToNextOption, help: "Payload sizes in bytes.")
  var sizes: [Int] = [128, 4 << 10, 64 << 10, 1 << 20]

  @Option(parsing: .upToNextOption, help: "Measure only these operations.")
  var filter: [Operation] = []

  @Flag(help: "Measure collections instead, over --records records of 1 KiB.")
  var collection = false

  @Flag(help: "Measure instead what it costs to overwrite dead files, against making and unlinking them.")
  var recycling = false

  @Option(help: "Records to collect. (default: 1000000; with --quick 20000)")
  var records: Int?

  @Option(help: ArgumentHelp("Measure nothing; collect this directory again and again.", visibility: .hidden))
  var collectForever: String?

  @Option(help: "Write the results to this file too, as one JSON object per line.")
  var json: String?

  @Flag(help: "Measure little, to see whether everything works.")
  var quick = false

  @Flag(help: "Compare the ratios with the thresholds.")
  var check = false

  @Option(help: "A file of thresholds.")
  var thresholds: String?

  @Option(help: "Measure nothing; do one operation --operations times, for strace and the like to look at.")
  var trace: Operation?

  func validate() throws {
    guard (rounds ?? 1) > 0, (operations ?? 1) > 0, (records ?? 1000) >= 1000 else {
      throw ValidationError("rounds and operations are above zero, records a thousand at least")
    }
    guard !sizes.isEmpty, sizes.allSatisfy({ (0...(1 << 30)).contains($0) }) else {
      throw ValidationError("sizes are between 0 and 1 GiB")
    }
    guard !check || thresholds != nil else { throw ValidationError("--check needs --thresholds") }
    if let trace, [.store, .unlock, .remove].contains(trace), (operations ?? 1) > Trace.keyCount {
      throw ValidationError("a trace of \(trace) is of \(Trace.keyCount) operations at the most")
    }
  }

  func run() throws {
    do {
      if let collectForever { try CollectionSuite.collectForever(FilePath(collectForever)) }
      let workspace = try Workspace(in: directory)
      if let trace {
        try Trace(operation: trace, size: sizes[0], count: operations ?? 1, format: .reference)
          .run(in: workspace.path.appending("trace")) { Self.note("trace: \($0)") }
      } else {
        try measure(in: workspace.path)
      }
    } catch let exit as ExitCode {
      throw exit
    } catch {
      Self.note("\(error)")
      throw ExitCode(2)
    }
  }

  private func measure(in directory: FilePath) throws {
    let thresholds = try thresholds.map(Threshold.read) ?? []
    let plan = Plan(
      directory: directory, rounds: rounds ?? (quick ? 7 : 30), operations: operations ?? (quick ? 40 : 100),
      sizes: sizes, manyRecords: quick ? 10_000 : 100_000, filter: Set(filter))
    let conditions = Conditions(
      fileSystem: try RawContender(directory: directory.appending("probe")).fileSystem, rounds: plan.rounds,
      operations: plan.operations)
    let comparisons =
      try collection
      ? CollectionSuite(
        directory: directory, records: records ?? (quick ? 20_000 : 1_000_000), rounds: rounds ?? (quick ? 3 : 5)
      ) { Self.note("measuring: \($0)") }.run()
      : recycling
        ? RecyclingSuite(plan: plan, churnOperations: quick ? 20_000 : 60_000) { Self.note("measuring: \($0)") }.run()
        : Suite(plan: plan) { Self.note("measuring: \($0)") }.run()
    let report = Report(conditions, comparisons, thresholds)
    print("\(conditions.fileSystem), \(conditions.processors) processors, \(conditions.system)")
    print("\(plan.rounds) rounds of up to \(plan.operations) operations\n")
    print(report.table)
    if let json { try report.json().write(to: URL(fileURLWithPath: json)) }
    guard check else { return }
    let isOfThisRun = { (threshold: Threshold) in
      threshold.isOfCollections == collection && threshold.isOfRecycling == recycling
    }
    if filter.isEmpty, let threshold = report.unmeasured.first(where: isOfThisRun) {
      throw BenchmarkFailure("nothing was measured for the threshold of \(threshold.operation)")
    }
    guard report.missed.isEmpty else {
      Self.note("\(report.missed.count) thresholds were missed")
      throw ExitCode(1)
    }
  }

  private static func note(_ message: String) {
    FileHandle.standardError.write(Data("benchmark: \(message)\n".utf8))
  }
}
