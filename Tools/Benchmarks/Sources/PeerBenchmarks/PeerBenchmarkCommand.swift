import ArgumentParser
import CRawFiles
import Foundation
import SystemPackage
import Workbench

@main
struct PeerBenchmarkCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "benchmark peers",
    abstract: "Measures the store against other caches and databases.",
    discussion: """
      The same payloads, which nothing compresses, under the same keys; none is asked to sync, but Foundation's atomic \
      write does on Linux. All take turns in small rounds of one run. Times are medians in microseconds per operation, \
      with two threads of what both got done; a ratio is the median of the rounds' ratios of the store to the peer. Limits are for one thread.

      Each load ends with the payload in memory of the caller's own. When a cache is at its limit, each removes its oldest \
      entry, by its key, and stores a new one. How each peer is set up is in the --json file.

      Exit status: 0 done, 1 a limit was missed (with --check), 2 could not do it, 64 usage.
      """)

  @Option(help: "Measure below this directory, on its file system; 3 GiB at the most. (default: $TMPDIR, else .build)")
  var directory: String?

  @Option(help: "Rounds, each of which gives one ratio. (default: 11; with --scattered 60; with --quick 2)")
  var rounds: Int?

  @Option(
    help: """
      Operations a turn, of small payloads. With less than the default there are turns in which SQLite has no checkpoint, \
      which comes with every thousandth page. (default: 500; with --scattered 200; with --quick 20)
      """)
  var operations: Int?

  @Option(help: "Entries that each cache holds while it is worked on, up to 160 MiB. (default: 4000 up to 64 MiB)")
  var residents: Int?

  @Option(help: "Bytes of a key.")
  var keyBytes = Keys.longest

  @Flag(help: "Load and replace residents that are chosen at random, not what was stored a moment ago.")
  var scattered = false

  @Flag(help: "Sync nothing between turns: for peers that never sync.")
  var unsynced = false

  @Option(parsing: .upToNextOption, help: "Payload sizes in bytes.")
  var sizes: [Int] = [128, 4 << 10, 64 << 10, 1 << 20]

  @Option(parsing: .upToNextOption, help: "Numbers of threads.")
  var threads: [Int] = [1, 2]

  @Option(parsing: .upToNextOption, help: "Measure only this work.")
  var filter: [Work] = []

  @Option(parsing: .upToNextOption, help: "Only these take part.")
  var peers: [Peer] = Peer.allCases

  @Option(help: "Whose ratios to the others are told: blobstore, packs or packs-mapped.")
  var subject = Peer.blobStore

  @Option(help: "Write the results to this file too, as one JSON object per line.")
  var json: String?

  @Option(help: "Draw the results with one thread into this file.")
  var svg: String?

  @Option(
    help: """
      Become this user first, by number, as services are not the superuser's: 65534 is nobody. Only the superuser can.
      """)
  var user: UInt32?

  @Flag(help: "Measure little, to see whether everything works.")
  var quick = false

  @Flag(help: "Compare the ratios with the limits.")
  var check = false

  @Option(help: "A file of limits.")
  var limits: String?

  @Option(help: ArgumentHelp("A Python that has diskcache.", visibility: .hidden))
  var python: String?

  @Option(help: ArgumentHelp("What it is to run.", visibility: .hidden))
  var pythonScript: String?

  func validate() throws {
    guard (rounds ?? 1) > 0, (operations ?? 1) > 0 else {
      throw ValidationError("rounds and operations are above zero")
    }
    guard !sizes.isEmpty, sizes.allSatisfy({ (1...(16 << 20)).contains($0) }) else {
      throw ValidationError("sizes are between 1 and 16 MiB")
    }
    guard (residents ?? 1) > 0, (16...Keys.longest).contains(keyBytes) else {
      throw ValidationError("residents are above zero, and keys of 16 to \(Keys.longest) bytes")
    }
    guard !threads.isEmpty, threads.allSatisfy({ (1...16).contains($0) }) else {
      throw ValidationError("threads are between 1 and 16")
    }
    guard !check || limits != nil else { throw ValidationError("--check needs --limits") }
  }

  func run() throws {
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
    let limits = try limits.map(Limit.read) ?? []
    let workspace = try Workspace(in: directory)
    // Opened while the process still has the permission to write.
    let (jsonFile, svgFile) = (try json.map(Self.openOutput), try svg.map(Self.openOutput))
    if let user { try ServiceUser.become(user, owning: workspace.path) }
    let plan = Plan(
      directory: workspace.path, rounds: rounds ?? (quick ? 2 : scattered ? 60 : 11),
      operations: operations ?? (quick ? 20 : scattered ? 200 : 500),
      sizes: sizes, threads: threads, peers: Peer.allCases.filter(peers.contains), filter: Set(filter),
      python: python.flatMap { python in pythonScript.map { Python(interpreter: python, script: $0) } },
      manyEntries: quick ? 200 : 100_000,
      residentBytes: quick ? 2 << 20 : residents == nil ? 64 << 20 : 160 << 20,
      residentEntries: quick ? 50 : residents ?? 4000,
      formerBytes: quick ? 2 << 20 : 80 << 20, formerEntries: quick ? 50 : 4096,
      filledBytes: quick ? 4 << 20 : 256 << 20, filledEntries: quick ? 200 : 20_000,
      keyByteCount: keyBytes, scatters: scattered, separates: !quick && !unsynced)
    var conditions = Conditions(
      fileSystem: fileSystem(of: workspace.path), rounds: plan.rounds, operations: plan.operations,
      loadBefore: Conditions.load())
    let (measurements, absences) = try PeerSuite(plan: plan) { Self.note("measuring: \($0)") }.run()
    conditions.loadAfter = Conditions.load()
    for (peer, absence) in absences { Self.note("skipped: \(peer.title): \(absence.reason)") }
    let report = PeerReport(of: subject, conditions, measurements, absences, limits)
    print("\(conditions.fileSystem), \(conditions.processors) processors, \(conditions.system)")
    print("as user \(conditions.user)")
    print("load average \(fixed(conditions.loadBefore)) before, \(fixed(conditions.loadAfter)) after")
    print("\(plan.rounds) rounds of up to \(plan.operations) operations\n")
    print(report.table)
    try jsonFile.map { try Self.replace($0, report.json()) }
    try svgFile.map { try Self.replace($0, Data(Chart(report).svg.utf8)) }
    guard check, !report.missed.isEmpty else { return }
    Self.note("\(report.missed.count) limits were missed")
    throw ExitCode(1)
  }

  private func fileSystem(of directory: FilePath) -> String {
    let descriptor = open(directory.string, O_RDONLY | O_DIRECTORY)
    defer { _ = raw_close(descriptor) }
    return String(cString: raw_file_system(descriptor))
  }

  /// Opens a file without truncating it, so that it stays unchanged until there is a result to write.
  private static func openOutput(_ path: String) throws -> FileHandle {
    if !FileManager.default.fileExists(atPath: path) { try Data().write(to: URL(fileURLWithPath: path)) }
    return try FileHandle(forWritingTo: URL(fileURLWithPath: path))
  }

  private static func replace(_ file: FileHandle, _ content: Data) throws {
    try file.truncate(atOffset: 0)
    try file.write(contentsOf: content)
  }

  private static func note(_ message: String) {
    FileHandle.standardError.write(Data("benchmark: \(message)\n".utf8))
  }
}
