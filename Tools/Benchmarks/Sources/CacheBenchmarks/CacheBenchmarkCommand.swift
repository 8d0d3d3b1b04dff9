import ArgumentParser
import Foundation
import SystemPackage

@main
struct CacheBenchmarkCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "benchmark cache",
    abstract: "Measures the asynchronous cache against what it is built on.",
    discussion: """
      Contenders take turns in small rounds of one run; times are medians in microseconds per operation, and a ratio is the \
      median of the rounds' ratios.

      Exit status: 0 done, 1 a limit was missed (with --check), 2 could not do it, 64 usage.
      """)

  @Option(help: "Measure below this directory, on its file system. (default: $TMPDIR, else /tmp)")
  var directory: String?

  @Option(help: "Rounds, each of which gives one ratio.")
  var rounds = 15

  @Option(parsing: .upToNextOption, help: "Measure only these.")
  var filter: [Measurement.Name] = []

  @Flag(help: "Measure little, to see whether everything works.")
  var quick = false

  @Flag(help: "Exit with 1 where a limit is missed.")
  var check = false

  func validate() throws {
    guard rounds > 0 else { throw ValidationError("rounds are above zero") }
  }

  func run() async throws {
    let place = directory ?? ProcessInfo.processInfo.environment["TMPDIR"] ?? "/tmp"
    let workspace = URL(filePath: place).appending(path: "blobcache-benchmark-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: workspace, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: workspace) }
    let scale = Scale(directory: FilePath(workspace.path), rounds: quick ? 3 : rounds, isQuick: quick)
    var isMissed = false
    for name in Measurement.Name.allCases where filter.isEmpty || filter.contains(name) {
      for measurement in try await name.measure(scale) {
        print(measurement)
        if measurement.isMissed { isMissed = true }
      }
    }
    if check, isMissed { throw ExitCode(1) }
  }
}

/// The extent and the directory of a run.
struct Scale {
  let directory: FilePath
  let rounds: Int
  let isQuick: Bool

  func count(_ full: Int) -> Int { isQuick ? max(full / 20, 1) : full }
}

/// The result of a measurement, compared with its limit.
struct Measurement: CustomStringConvertible {
  enum Name: String, CaseIterable, ExpressibleByArgument {
    case memoryHit = "memory-hit"
    case diskHit = "disk-hit"
    case hop
    case throughput
    case stores
    case readsUnderRemovals = "reads-under-removals"
    case manyOperations = "many-operations"

    func measure(_ scale: Scale) async throws -> [Measurement] {
      switch self {
      case .memoryHit: return [try await measureMemoryHit(scale)]
      case .diskHit:
        var measurements: [Measurement] = []
        for (byteCount, limit) in [(128, 1.3), (4096, 1.3), (64 << 10, 1.2)] {
          measurements.append(try await measureDiskHit(scale, byteCount: byteCount, limit: limit))
        }
        return measurements
      case .hop: return try await measureHop(scale).map { [$0] } ?? []
      case .throughput: return [try await measureThroughput(scale)]
      case .stores: return try await measureStores(scale)
      case .readsUnderRemovals: return [try await measureReadsUnderRemovals(scale)]
      case .manyOperations: return [try await measureManyOperations(scale)]
      }
    }
  }

  let name: Name
  /// The times and counts as text for the report.
  let details: String
  let ratio: Double
  let limit: Double

  var isMissed: Bool { ratio > limit }

  var description: String {
    "\(name.rawValue): \(details): \(format(ratio)) of at most \(format(limit))\(isMissed ? "  MISSED" : "")"
  }
}

func format(_ number: Double) -> String { String(format: "%.2f", number) }

func median(_ values: [Double]) -> Double { quantile(0.5, of: values) }

/// - Parameter values: At least one value.
func quantile(_ fraction: Double, of values: [Double]) -> Double {
  let sorted = values.sorted()
  return sorted[Int(Double(sorted.count - 1) * fraction)]
}

/// - Returns: The duration in microseconds.
func time(_ work: () async throws -> Void) async rethrows -> Double {
  let start = ContinuousClock.now
  try await work()
  return start.duration(to: .now) / .microseconds(1)
}
