internal import BlobRecord
internal import BlobStore
internal import Dispatch
internal import Linearizability
internal import Locks

/// Compares the histories of the workers with the specification.
final class HistoryCheck {
  private let options: RunOptions
  private let clock: TortureClock
  private let sources: [Coordinator.Source]
  private var operations: [[Operation]]
  private var found: [String] = []
  private var streams = StreamCheck()

  init(_ options: RunOptions, _ coordinator: Coordinator) throws {
    self.options = options
    clock = coordinator.clock
    sources = coordinator.sources
    operations = Array(repeating: [], count: options.keys)
  }

  /// - Returns: Descriptions of the violations, each with several lines.
  func findings(_ report: inout RunReport) -> [String] {
    let began = TortureClock.nanoseconds
    do {
      for source in sources { try take(source, &report) }
      if options.packing { for key in operations.indices { finishLater(key) } }
      found += streams.findings
      try lookAtWhatIsLeft()
    } catch {
      found.append("the run could not be checked: \(error)")
    }
    let checker = Checker(defaultTTL: RunOptions.defaultTTL)
    let violations = Lock<[Int: Violation]>([:])
    let histories = operations
    DispatchQueue.concurrentPerform(iterations: options.keys) { key in
      guard let violation = checker.firstViolation(in: histories[key]) else { return }
      violations.withLock { $0[key] = violation }
    }
    for (key, violation) in violations.withLock({ $0 }).sorted(by: { $0.key < $1.key }) {
      found.append("key \(KeyNames.key(key)): \(violation)")
    }
    report.checkSeconds = Double(TortureClock.nanoseconds - began) / 1e9
    return found
  }
}

extension HistoryCheck {
  private func take(_ source: Coordinator.Source, _ report: inout RunReport) throws {
    for entry in try HistoryFile.entries(of: source.path) {
      let parts = entry.operations(caller: source.caller, ended: source.ended, clock: clock)
      if !streams.take(entry, &report) { count(entry, &report) }
      if let message = entry.impossibleByItself {
        found.append("\(message): key \(entry.key): \(parts.first.map { "\($0)" } ?? "")")
      }
      for operation in parts {
        if operation.isOnAllKeys {
          var operation = operation
          // It may find a key in each chunk that the key is stored in concurrently, and in a file (Semantics, I9).
          operation.recurs = options.packing
          for key in operations.indices { operations[key].append(operation) }
        } else {
          operations[Int(entry.key)].append(operation)
        }
      }
    }
  }

  /// Extends the operations of killed processes until the next change of the key, which completes or reverts an
  /// unfinished operation in a pack (Semantics, I4a).
  private func finishLater(_ key: Int) {
    let changes = operations[key].filter(\.hasChanged).sorted { $0.called < $1.called }
    for (index, operation) in operations[key].enumerated()
    where operation.response == .unknown && !operation.isOnAllKeys {
      let next = changes.first { $0.called >= operation.returned }
      operations[key][index].returned = next?.returned ?? .max
    }
  }

  private func count(_ entry: HistoryEntry, _ report: inout RunReport) {
    if entry.returned == 0 {
      report.pending += 1
    } else {
      report.longestMilliseconds = max(report.longestMilliseconds, Double(entry.returned - entry.called) / 1e6)
    }
    guard let kind = HistoryEntry.Kind(rawValue: entry.kind), kind != .collect, kind != .collectToLimit else {
      report.collections += 1
      report.expired += Int(entry.loaded)
      report.evicted += Int(entry.stored)
      return
    }
    report.operations += 1
    guard kind.isRead else { return }
    report.reads += 1
    if entry.outcome == HistoryEntry.Outcome.loadedFromMemory.rawValue { report.memoryHits += 1 }
    if entry.outcome == HistoryEntry.Outcome.loadedAtOnce.rawValue { report.looks += 1 }
    if entry.outcome == HistoryEntry.Outcome.notFound.rawValue { report.misses += 1 }
  }

  /// Reads every key after all workers have ended, to check the last acknowledged changes too. Then it collects once,
  /// after which no leftover of a killed worker may remain.
  private func lookAtWhatIsLeft() throws {
    let store = try options.store(clock: clock)
    for key in 0..<options.keys {
      let called = TortureClock.nanoseconds
      let header = try store.header(for: KeyNames.key(key))
      let returned = TortureClock.nanoseconds
      let response: Operation.Response =
        header.map {
          .observed(
            Operation.Observation(
              refCount: $0.refCount, ttl: UInt32(clamping: $0.ttl), updateTime: UInt32(clamping: $0.updateTime)))
        } ?? .notFound
      operations[key].append(
        Operation(
          caller: "last look", .header, response, called: called, returned: returned,
          firstSecond: clock.second(at: called), lastSecond: clock.second(at: returned)))
    }
    try store.collect()
    let usage = try store.usage()
    if usage.temporaryFiles > 0 { found.append("\(usage.temporaryFiles) temporary files are left after a collection") }
    if usage.damagedFiles > 0 { found.append("\(usage.damagedFiles) damaged files are left") }
    if usage.foreignFiles > 0 { found.append("\(usage.foreignFiles) files are left that are no records") }
  }
}
