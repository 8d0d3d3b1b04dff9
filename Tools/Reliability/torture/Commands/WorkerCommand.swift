internal import ArgumentParser
internal import BlobStore
internal import Foundation
internal import SystemPackage

/// A worker process, which the coordinator starts.
struct WorkerCommand: ParsableCommand {
  static let configuration = CommandConfiguration(commandName: "worker", shouldDisplay: false)

  @OptionGroup var options: RunOptions
  @Option var number: Int
  @Option var incarnation: Int
  @Option var start: UInt64
  @Option var quotas: String
  @Flag var collects = false

  func run() throws {
    let clock = TortureClock(start: start, secondLength: UInt64(options.secondMilliseconds) * 1_000_000)
    let cache = try options.cache(clock: clock, collects: collects)
    try cache.store.store(Data([1]), for: "warm-up-\(number)", ttl: .seconds(1))
    let faults = options.plant.map { PlantedFaults($0, cache: options.cachePath.string, clock: clock) }
    let blindMemory = options.plant == .blindMemory ? BlindMemory() : nil
    let quotas = quotas.split(separator: ",").compactMap { Int($0) }
    guard FileManager.default.createFile(atPath: options.path("ready-\(number)"), contents: nil) else {
      throw TortureFailure("no ready file")
    }
    let deadline = start + UInt64(options.seconds) * 1_000_000_000
    while !FileManager.default.fileExists(atPath: options.path("go")) {
      guard TortureClock.nanoseconds < deadline else { throw TortureFailure("nobody says go") }
      TortureClock.sleep(milliseconds: 1)
    }
    if collects { return try collect(cache, faults, quotas.first ?? 0, deadline) }

    let ended = DispatchSemaphore(value: 0)
    for (index, quota) in quotas.enumerated() {
      let worker = try Worker(
        options, cache: cache, clock: clock, blindMemory: blindMemory, faults: faults,
        number: (number, incarnation, index), quota: quota)
      nonisolated(unsafe) let sent = worker
      Thread.detachNewThread {
        sent.run(until: deadline)
        ended.signal()
      }
    }
    for _ in quotas { ended.wait() }
  }

  /// Collects repeatedly until all other workers are done.
  private func collect(_ cache: CacheInHand, _ faults: PlantedFaults?, _ quota: Int, _ deadline: UInt64) throws {
    let history = try HistoryFile(
      creating: options.historyPath(worker: number, incarnation: incarnation, thread: 0), capacity: quota)
    while !history.isFull, TortureClock.nanoseconds < deadline,
      !FileManager.default.fileExists(atPath: options.path("done"))
    {
      var entry = HistoryEntry()
      entry.kind = (options.sizeLimit == nil ? HistoryEntry.Kind.collect : .collectToLimit).rawValue
      entry.key = HistoryEntry.everyKey
      history.call(&entry)
      do {
        let report = try faults?.collect((0..<options.keys).map(KeyNames.key)) ?? cache.collect()
        entry.loaded = UInt64(report.expired)
        entry.stored = UInt64(report.evicted)
        entry.refCount = UInt32(clamping: report.subdirectories)
        // A stopped process still holds its key's lock, so the collection leaves that key to the next one.
        entry.outcome = (report.failed > report.busy ? HistoryEntry.Outcome.failed : .done).rawValue
      } catch {
        entry.outcome = HistoryEntry.Outcome.failed.rawValue
        writeError("\(error)")
      }
      history.finish(&entry)
      TortureClock.sleep(milliseconds: 1)
    }
  }
}
