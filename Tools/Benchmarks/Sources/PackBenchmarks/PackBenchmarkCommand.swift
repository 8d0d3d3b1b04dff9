import ArgumentParser
import BlobStore
import Foundation
import SystemPackage
import Workbench

@main
struct PackBenchmarkCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "benchmark packs",
    abstract: "Measures packs beside files, on the disk, at the limit, at the opening and between processes.",
    discussion: """
      Records of 128 bytes under keys of 24. A logical byte is one of the 64 of a record's header or of its payload. What \
      is told beside something else took turns with it in one run; a ratio is the median of the rounds' own.

      Exit status: 0 done, 1 a limit was missed (with --check), 2 could not do it, 64 usage.
      """)

  @Option(help: "Measure below this directory, on its file system; 1 GiB at the most. (default: $TMPDIR, else .build)")
  var directory: String?

  @Option(parsing: .upToNextOption, help: "Measure only this.")
  var filter: [Subject] = []

  @Option(help: "Rounds of what takes turns, each of which gives one ratio. (default: 31; with --quick 2)")
  var rounds: Int?

  @Option(help: "Records of the large cache; five times what the limit allows. (default: 1000000; with --quick 2000)")
  var records: Int?

  @Option(help: "Become this user first, by number: 65534 is nobody. Only the superuser can.")
  var user: UInt32?

  @Option(help: "Write the results to this file too, as one JSON object per line.")
  var json: String?

  @Flag(help: "Measure little, to see whether everything works.")
  var quick = false

  @Flag(help: "Compare the results with the limits.")
  var check = false

  @Option(help: "A file of limits.")
  var limits: String?

  @Option(help: .hidden)
  var work: String?

  func validate() throws {
    guard (rounds ?? 1) > 0, (records ?? 1) > 0 else { throw ValidationError("rounds and records are above zero") }
    guard !check || limits != nil else { throw ValidationError("--check needs --limits") }
  }

  func run() throws {
    if let work { return try PackWorker(in: FilePath(work)).serve() }
    do {
      try measure()
    } catch let exit as ExitCode {
      throw exit
    } catch {
      Self.note("\(error)")
      throw ExitCode(2)
    }
  }

  private func measure() throws {
    let limits = try limits.map(PackLimit.read) ?? []
    let workspace = try Workspace(in: directory)
    // Opened while the process still has the permission to write.
    let output = try json.map(Self.openOutput)
    if let user { try ServiceUser.become(user, owning: workspace.path) }
    let plan = PackPlan(
      directory: workspace.path, rounds: rounds ?? (quick ? 2 : 31), records: records ?? (quick ? 2000 : 1_000_000),
      isQuick: quick)
    var conditions = PackConditions(rounds: plan.rounds, records: plan.records)
    var figures: [PackFigure] = []
    for subject in Subject.allCases where filter.isEmpty || filter.contains(subject) {
      Self.note("measuring: \(subject.title)")
      figures += try subject.measured(by: plan)
    }
    conditions.loadAfter = PackConditions.load()
    let report = PackReport(conditions, figures, limits)
    print(report.text)
    if let output {
      try output.truncate(atOffset: 0)
      try output.write(contentsOf: try report.json())
    }
    guard check, !report.missed.isEmpty else { return }
    Self.note("\(report.missed.count) limits were missed")
    throw ExitCode(1)
  }

  /// Opens a file without truncating it, so that it stays unchanged until there is a result to write.
  private static func openOutput(_ path: String) throws -> FileHandle {
    if !FileManager.default.fileExists(atPath: path) { try Data().write(to: URL(fileURLWithPath: path)) }
    return try FileHandle(forWritingTo: URL(fileURLWithPath: path))
  }

  private static func note(_ message: String) {
    FileHandle.standardError.write(Data("benchmark: \(message)\n".utf8))
  }
}
