import ArgumentParser
import BlobStore
import Foundation
import SystemPackage
import Workbench

@main
struct UseBenchmarkCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "benchmark uses",
    abstract: "Measures what it costs to count uses, and to evict by them.",
    discussion: """
      `frequency` counts uses in a file, `oldest` makes none; all else is alike. The two take turns in one run. Times are \
      of the processor, each the median of the rounds. A difference or a ratio is the median of the rounds' own.

      Exit status: 0 done, 1 a limit was missed (with --check) or it could not be measured, 64 usage.
      """)

  @Option(help: "Where directories are made. (default: TMPDIR, or .build)")
  var directory: String?

  @Option(help: "Rounds, each of which gives one difference or ratio.")
  var rounds = 41

  @Option(help: "Records that a pass looks at; 0 to measure none.")
  var records = 1_000_000

  @Option(help: "Rounds of passes.")
  var passRounds = 7

  @Flag(help: "Exit with 1 where a limit is missed.")
  var check = false

  @Option(help: .hidden)
  var work: String?

  func validate() throws {
    guard rounds > 0, passRounds > 0, records >= 0 else { throw ValidationError("rounds are above zero") }
  }

  func run() async throws {
    if let work { return try await UseWorker(in: FilePath(work)).serve() }
    let workspace = try Workspace(in: directory)
    var results = try UseCosts(in: workspace.path.appending("uses"), rounds: rounds).measured()
    results.forEach { print($0) }
    if records > 0 {
      let passes = try PassCosts(in: workspace.path.appending("passes"), records: records, rounds: passRounds)
      results.append(try passes.measured())
      print(results[results.count - 1])
    }
    if check, results.contains(where: \.isMissed) { throw ExitCode(1) }
  }
}

/// The cost of counting in one place.
struct Cost: CustomStringConvertible {
  let place: String
  /// The times of `oldest` and of `frequency`.
  let times: String
  /// A difference in nanoseconds, or a ratio.
  let value: Double
  let limit: Double
  let isRatio: Bool

  var isMissed: Bool { value > limit }

  var description: String {
    let format = isRatio ? "%.3f of at most %.2f" : "%.1f ns more, of at most %.0f"
    return "\(place): \(times): \(String(format: format, value, limit))\(isMissed ? "  MISSED" : "")"
  }
}
