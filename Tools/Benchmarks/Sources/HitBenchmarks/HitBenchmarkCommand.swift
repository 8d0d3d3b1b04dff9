import ArgumentParser
import BlobStore
import Foundation
import ReplacementPolicies
import SystemPackage
import Workbench

@main
struct HitBenchmarkCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "benchmark hits",
    abstract: "Measures what share of requests a store answers that keeps a size limit, beside simulated policies.",
    discussion: """
      Each request of a trace is a load, and a store where that finds nothing. `frequency` and `oldest` are the store \
      itself, with files and limits; the others are simulated. Belady knows the future.

      A trace is a file of little-endian 32-bit numbers: a key for each request (.u32), or a key and its bytes (.u32x2). \
      With .xz behind, the program xz unpacks it. Keys without bytes count as one each.

      --sketches compares caches in memory instead, simulated, that admit by use (W-TinyLFU): each with a sketch of its \
      own, and with the one that processes share on disk. Keys count as one each there.

      Exit status: 0 done, 1 a trace could not be read or a store failed, 64 usage.
      """)

  @Option(name: .customLong("trace"), help: "A trace; may be repeated. (default: a generated one)")
  var traces: [String] = []

  @Option(name: .customLong("share"), help: "The cache's part of all keys; may be repeated. (default: 0.01 and 0.1)")
  var shares: [Double] = []

  @Option(help: "Where the store's directory is made. (default: TMPDIR, or .build)")
  var directory: String?

  @Flag(help: "Print an object a line.")
  var json = false

  @Flag(help: "Compare sketches of caches in memory.")
  var sketches = false

  func validate() throws {
    guard shares.allSatisfy({ $0 > 0 && $0 <= 1 }) else { throw ValidationError("a share is above 0 and at most 1") }
    guard !sketches || !json else { throw ValidationError("--sketches prints a table only") }
  }

  func run() throws {
    let shares = shares.isEmpty ? [0.01, 0.1] : shares
    var rows: [[String]] = []
    for trace in try traces.isEmpty ? [.zipfWithScans(keyCount: 2_000, length: 40_000, scanLength: 200)] : recorded() {
      for share in shares {
        guard !sketches else {
          rows.append(SketchResults(trace, share: share).row)
          continue
        }
        let results = try HitResults(trace, share: share, workspace: Workspace(in: directory))
        if json { results.lines.forEach { print($0) } } else { rows.append(contentsOf: results.rows) }
      }
    }
    guard !json else { return }
    print(
      sketches
        ? TextTable(titles: SketchResults.titles, rows: rows, texts: [0])
        : TextTable(titles: HitResults.titles, rows: rows, texts: [0, 2]))
  }

  private func recorded() throws -> [AccessTrace] { try traces.map { try AccessTrace(recordedIn: FilePath($0)) } }
}
