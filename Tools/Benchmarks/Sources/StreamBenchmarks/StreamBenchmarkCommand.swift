import ArgumentParser
import BlobStore
import Foundation
import SystemPackage
import Workbench

@main
struct StreamBenchmarkCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "benchmark streams",
    abstract: "Measures large payloads in and out, ranges of them, and followers.",
    discussion: """
      Beside cp and raw system calls, which take turns with the store in one run. A ratio is the median of the rounds' own. \
      Everything is in the page cache.

      Exit status: 0 done, 1 a limit was missed (with --check) or it could not be measured, 64 usage.
      """)

  @Option(help: "Where directories are made. (default: TMPDIR, or .build)")
  var directory: String?

  @Option(help: "MiB of a payload that is copied.")
  var megabytes = 1024

  @Option(help: "Rounds, each of which gives one ratio.")
  var rounds = 7

  @Option(help: "The tool, which is measured too.")
  var tool: String?

  @Flag(help: "Exit with 1 where a limit is missed.")
  var check = false

  @Option(help: .hidden)
  var writeForFollowers: String?

  @Flag(help: "Measure followers alone.")
  var followers = false

  func validate() throws {
    guard rounds > 0, megabytes > 0 else { throw ValidationError("rounds and megabytes are above zero") }
  }

  func run() throws {
    if let writeForFollowers { return try Followers.write(in: FilePath(writeForFollowers)) }
    let workspace = try Workspace(in: directory)
    guard !followers else { return try report(Followers(in: workspace.path, rounds: rounds).measured()) }
    let copies = try Copies(in: workspace.path, byteCount: Int64(megabytes) << 20, tool: tool, rounds: rounds)
    var results = try copies.measured()
    results += try Ranges(in: workspace.path, rounds: rounds * 10).measured()
    results += try Followers(in: workspace.path, rounds: rounds).measured()
    try report(results)
  }

  private func report(_ results: [StreamResult]) throws {
    results.forEach { print($0) }
    if check, results.contains(where: \.isMissed) { throw ExitCode(1) }
  }
}

/// The result of a comparison.
struct StreamResult: CustomStringConvertible {
  let work: String
  let figures: String
  /// The ratio to the baseline's time or throughput, or a size in MiB.
  let value: Double
  let limit: Double
  /// A Boolean value that indicates whether the limit is a minimum.
  let isLeast: Bool

  var isMissed: Bool { isLeast ? value < limit : value > limit }

  var description: String {
    let bound = String(format: isLeast ? "at least %.2f" : "at most %.2f", limit)
    return "\(work): \(figures), \(String(format: "%.2f", value)) of \(bound)\(isMissed ? "  MISSED" : "")"
  }
}
