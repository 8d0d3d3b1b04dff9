internal import BlobStore
internal import Foundation
internal import Randomness
internal import SystemPackage

/// Starts, kills and stops the workers, and restarts them until all their operations are done.
final class Coordinator {
  /// A worker with all its incarnations.
  private struct Seat {
    var process: ChildProcess
    var incarnation = 0
    /// The remaining operations of each thread.
    var quotas: [Int]
    var resumesAt: UInt64 = 0
    var isDone = false
  }

  /// A history file and the time at which its writer had ended.
  struct Source {
    var path: String
    var caller: String
    var ended: UInt64
  }

  let options: RunOptions
  let clock: TortureClock
  private(set) var report: RunReport
  private(set) var sources: [Source] = []
  private var seats: [Seat] = []
  private var packs: PackLooks?
  private var generator: SeededGenerator

  init(_ options: RunOptions) throws {
    self.options = options
    clock = TortureClock(
      start: TortureClock.nanoseconds, secondLength: UInt64(options.secondMilliseconds) * 1_000_000)
    report = RunReport(seed: options.seed, plant: options.plant?.rawValue)
    generator = SeededGenerator(seed: options.seed, -1)
    packs = options.packing ? PackLooks(at: options.cachePath.string) : nil
    guard !FileManager.default.fileExists(atPath: options.directory) else {
      throw TortureFailure("\(options.directory) exists already")
    }
    try FileManager.default.createDirectory(
      atPath: options.path("").trimmingSuffix("/"), withIntermediateDirectories: true)
    try FileManager.default.createDirectory(
      atPath: options.cachePath.string, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
  }

  private var collectorNumber: Int? { options.hasCollector ? options.processes : nil }

  func run() throws {
    let quota = max(1, options.operations / (options.processes * options.threads))
    for number in 0..<options.processes {
      let quotas = [Int](repeating: quota, count: options.threads)
      seats.append(Seat(process: try start(number, 0, quotas), quotas: quotas))
    }
    if let collectorNumber {
      let quotas = [options.seconds * 1000 + 1]
      seats.append(Seat(process: try start(collectorNumber, 0, quotas), quotas: quotas))
    }
    try awaitReady()
    // Every worker has opened the control file by now, and must find a new one before its first operation.
    try FileManager.default.removeItem(atPath: options.cachePath.appending(".blobcache").string)
    // Stores check the control file once a second.
    TortureClock.sleep(milliseconds: 1100)
    let began = TortureClock.nanoseconds
    guard FileManager.default.createFile(atPath: options.path("go"), contents: nil) else {
      throw TortureFailure("no go file")
    }
    try drive()
    report.seconds = Double(TortureClock.nanoseconds - began) / 1e9
    packs?.look()
    report.growths = packs?.growths ?? 0
    report.reusedChunks = packs?.reusedChunks ?? 0
  }
}

extension Coordinator {
  private func start(_ number: Int, _ incarnation: Int, _ quotas: [Int]) throws -> ChildProcess {
    var arguments =
      ["worker", "--number", "\(number)", "--incarnation", "\(incarnation)", "--start", "\(clock.start)"]
      + ["--quotas", quotas.map { "\($0)" }.joined(separator: ",")] + options.arguments
    if number == collectorNumber { arguments.append("--collects") }
    return try ChildProcess(arguments: arguments)
  }

  private func awaitReady() throws {
    let deadline = TortureClock.nanoseconds + 60_000_000_000
    for number in seats.indices {
      while !FileManager.default.fileExists(atPath: options.path("ready-\(number)")) {
        guard !seats[number].process.poll(), TortureClock.nanoseconds < deadline else {
          throw TortureFailure("worker \(number) did not start")
        }
        TortureClock.sleep(milliseconds: 1)
      }
    }
  }

  private func drive() throws {
    // Detects a worker that hangs, because the longest timeout of the store is ten seconds.
    let giveUp = TortureClock.nanoseconds + UInt64(options.seconds + 30) * 1_000_000_000
    var nextKill = TortureClock.nanoseconds + pause(options.killMilliseconds)
    var nextStop = TortureClock.nanoseconds + pause(20)
    var nextLook = TortureClock.nanoseconds
    while !seats.prefix(options.processes).allSatisfy(\.isDone) {
      TortureClock.sleep(milliseconds: 1)
      let now = TortureClock.nanoseconds
      guard now < giveUp else { throw TortureFailure("workers did not end") }
      for number in seats.indices where !seats[number].isDone {
        if seats[number].process.isStopped, seats[number].resumesAt <= now { seats[number].process.resume() }
        if seats[number].process.poll() { try noteEnd(of: number) }
      }
      if options.kills, now >= nextKill {
        nextKill = now + pause(options.killMilliseconds)
        try killSomebody()
      }
      if options.stops, now >= nextStop {
        nextStop = now + pause(20)
        stopSomebody(now)
      }
      if now >= nextLook {
        nextLook = now + 20_000_000
        packs?.look()
      }
    }
    guard let collectorNumber, !seats[collectorNumber].isDone else { return }
    _ = FileManager.default.createFile(atPath: options.path("done"), contents: nil)
    seats[collectorNumber].process.resume()
    while !seats[collectorNumber].process.poll() {
      guard TortureClock.nanoseconds < giveUp else { throw TortureFailure("the collector did not end") }
      TortureClock.sleep(milliseconds: 1)
    }
    try noteEnd(of: collectorNumber)
  }

  /// Returns a random pause of 50 to 150 percent of the milliseconds, in nanoseconds.
  private func pause(_ milliseconds: Int) -> UInt64 {
    .random(in: UInt64(milliseconds) * 500_000...UInt64(milliseconds) * 1_500_000, using: &generator)
  }

  private func noteEnd(of number: Int) throws {
    guard seats[number].process.exitStatus == 0 else {
      throw TortureFailure("worker \(number) died: status \(seats[number].process.exitStatus ?? -1)")
    }
    addSources(of: number)
    seats[number].isDone = true
  }

  /// - Returns: The number of operations that each thread has started.
  @discardableResult
  private func addSources(of number: Int) -> [Int] {
    let ended = TortureClock.nanoseconds
    return seats[number].quotas.indices.map { thread in
      let incarnation = seats[number].incarnation
      let source = Source(
        path: options.historyPath(worker: number, incarnation: incarnation, thread: thread),
        caller: "\(number).\(incarnation).\(thread)", ended: ended)
      // A worker that was killed before it created the file has done nothing.
      guard let entries = try? HistoryFile.entries(of: source.path) else { return 0 }
      sources.append(source)
      return entries.count
    }
  }

  private func killSomebody() throws {
    let number = Int.random(in: 0..<seats.count, using: &generator)
    guard !seats[number].isDone, !seats[number].process.poll(), mayBeKilled(number) else { return }
    seats[number].process.kill()
    report.kills += 1
    let counts = addSources(of: number)
    for thread in counts.indices { seats[number].quotas[thread] -= counts[thread] }
    guard seats[number].quotas.contains(where: { $0 > 0 }) else {
      seats[number].isDone = true
      return
    }
    seats[number].quotas = seats[number].quotas.map { max($0, 1) }
    seats[number].incarnation += 1
    seats[number].resumesAt = 0
    seats[number].process = try start(number, seats[number].incarnation, seats[number].quotas)
  }

  /// Lets every second collector finish a collection before it is killed, so that some finish on slow machines too.
  private func mayBeKilled(_ number: Int) -> Bool {
    let incarnation = seats[number].incarnation
    guard number == collectorNumber, incarnation.isMultiple(of: 2) else { return true }
    let path = options.historyPath(worker: number, incarnation: incarnation, thread: 0)
    guard let first = try? HistoryFile.entries(of: path).first else { return false }
    return first.returned > 0
  }

  private func stopSomebody(_ now: UInt64) {
    let number = Int.random(in: 0..<seats.count, using: &generator)
    guard !seats[number].isDone, !seats[number].process.isStopped else { return }
    seats[number].process.stop()
    seats[number].resumesAt = now + .random(in: 1_000_000...50_000_000, using: &generator)
    report.stops += 1
  }
}

extension String {
  fileprivate func trimmingSuffix(_ suffix: String) -> String {
    hasSuffix(suffix) ? String(dropLast(suffix.count)) : self
  }
}
