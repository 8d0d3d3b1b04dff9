internal import ArgumentParser
internal import BlobRecord
internal import BlobStore
internal import Foundation
internal import SystemPackage

/// Locks and unlocks one key from many processes. The count must be exact, and no process may reach the timeout.
struct LocksCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "locks",
    abstract: "Lock and unlock one key from many processes, and check the count.",
    discussion: "Prints one object of JSON. Exit status 0: the count is exact and nobody was told busy; 1: not so.")

  @Option(help: "Processes.") var processes = 8
  @Option(help: "Locks, and as many unlocks, of each process.") var iterations = 10_000
  @Option(help: "A directory to make.") var directory: String
  @Option(help: .hidden) var worker: Int?

  private static let key: BlobKey = "one key"
  /// The interval of locks that are kept, so that the final count is not zero.
  private static let keptEvery = 100

  /// The results of one process.
  private struct Tally: Codable {
    var locks = 0
    var unlocks = 0
    var failures = 0
    var longestMilliseconds = 0.0
  }

  private struct Report: Codable {
    var type = "locks"
    var locks: Int
    var unlocks: Int
    var failures: Int
    var refCount: Int
    var longestMilliseconds: Double
    var seconds: Double
  }

  func run() throws {
    var configuration = BlobStore.Configuration()
    configuration.durability = .none
    configuration.packing = .upTo(8192)
    do {
      let store = try BlobStore(directory: .init(directory), configuration: configuration)
      if let worker { return try work(worker, store) }
      try coordinate(store)
    } catch let error as ExitCode {
      throw error
    } catch {
      writeError("\(error)")
      throw ExitCode(2)
    }
  }

  private func tallyPath(_ worker: Int) -> String { "\(directory).tally-\(worker)" }

  private func work(_ worker: Int, _ store: BlobStore) throws {
    var tally = Tally()
    func timed(_ operation: () throws -> BlobStore.Outcome) -> Bool {
      let began = TortureClock.nanoseconds
      defer {
        tally.longestMilliseconds = max(
          tally.longestMilliseconds, Double(TortureClock.nanoseconds - began) / 1e6)
      }
      do {
        if try operation() == .done { return true }
      } catch {
        writeError("\(error)")
      }
      tally.failures += 1
      return false
    }
    for iteration in 1...max(iterations, 1) {
      if timed({ try store.lock(Self.key) }) { tally.locks += 1 }
      if iteration % Self.keptEvery == 0 { continue }
      if timed({ try store.unlock(Self.key) }) { tally.unlocks += 1 }
    }
    try JSONEncoder().encode(tally).write(to: URL(filePath: tallyPath(worker)))
  }

  private func coordinate(_ store: BlobStore) throws {
    guard !FileManager.default.fileExists(atPath: directory) else {
      throw TortureFailure("\(directory) exists already")
    }
    try store.store(Data("payload".utf8), for: Self.key)
    let began = TortureClock.nanoseconds
    let children = try (0..<processes).map { number in
      try ChildProcess(
        arguments: ["locks", "--worker", "\(number)", "--iterations", "\(iterations)", "--directory", directory])
    }
    for child in children { while !child.poll() { TortureClock.sleep(milliseconds: 1) } }
    var report = Report(
      locks: 0, unlocks: 0, failures: 0, refCount: Int(try store.header(for: Self.key)?.refCount ?? 0),
      longestMilliseconds: 0, seconds: Double(TortureClock.nanoseconds - began) / 1e9)
    for number in 0..<processes {
      let tally = try JSONDecoder().decode(
        Tally.self, from: Data(contentsOf: URL(filePath: tallyPath(number))))
      report.locks += tally.locks
      report.unlocks += tally.unlocks
      report.failures += tally.failures
      report.longestMilliseconds = max(report.longestMilliseconds, tally.longestMilliseconds)
    }
    print(String(decoding: try JSONEncoder().encode(report), as: UTF8.self))
    guard report.failures == 0, report.refCount == report.locks - report.unlocks else { throw ExitCode(1) }
  }
}
