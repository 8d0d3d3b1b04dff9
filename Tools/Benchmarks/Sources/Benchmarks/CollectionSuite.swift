import BlobRecord
import BlobStore
import Foundation
import SystemPackage
import Workbench

/// Measures collections of one directory with a very large number of records, against raw walks over it.
struct CollectionSuite {
  static let payloadSize = 1024
  private static let recordBytes = Int64(payloadSize + RecordHeader.byteCount)
  /// The number of update times, which are a second apart and have the same number of records each.
  private static let ages = 100

  let directory: FilePath
  let records: Int
  let rounds: Int
  let progress: (String) -> Void

  func run() throws -> [Comparison] {
    progress("making \(records) records")
    let root = directory.appending("collection")
    let raw = try RawContender(directory: root)
    for age in 0..<Self.ages {
      let keys = Keys(
        from: age * records / Self.ages, count: (age + 1) * records / Self.ages - age * records / Self.ages)
      try raw.populate(keys, payloadSize: Self.payloadSize, age: age)
    }
    // The first collection creates the control file and warms up. The pause is necessary because a collection does
    // not treat recently changed directories as known.
    try collect(root) { _ in }
    sleep(1)
    var comparisons = [try everything(root, raw), try known(root, raw), try memory(root)]
    comparisons += try loads(root)
    return comparisons + [try eviction(root, raw)]
  }

  @discardableResult
  private func collect(
    _ root: FilePath, everything: Bool = true, _ change: (inout BlobStore.Configuration) -> Void
  ) throws -> BlobStore.CollectionReport {
    var configuration = StoreContender.configuration(.reference)
    let now = UnixTime(seconds: SteppingClock.start)
    configuration.now = { now }
    configuration.limits.freeSpaceFloor = 0
    change(&configuration)
    var options = BlobStore.CollectionOptions()
    options.looksAtEverything = everything
    return try BlobStore(directory: root, configuration: configuration).collect(options)
  }

  /// - Returns: The microseconds per record of a walk and of a collection.
  private func comparison(
    _ operation: Operation, _ store: String, _ root: FilePath, _ raw: RawContender, everything: Bool
  ) throws -> Comparison {
    progress("\(operation), \(store)")
    var comparison = Comparison(operation: operation, size: Self.payloadSize, store: store, baseline: "raw walk")
    for round in 0...rounds {
      func measureRaw() throws -> Double { try time { try raw.walk(expecting: records) } }
      func measureStore() throws -> Double {
        try time {
          let report = try collect(root, everything: everything) { _ in }
          try BenchmarkFailure.require(
            report.examined == records && report.bytesAfter == Int64(records) * Self.recordBytes,
            "the collection has examined \(report.examined) records")
        }
      }
      let isRawFirst = round.isMultiple(of: 2)
      let first = try isRawFirst ? measureRaw() : measureStore()
      let second = try isRawFirst ? measureStore() : measureRaw()
      guard round > 0 else { continue }
      comparison.baselineTimes.append((isRawFirst ? first : second) / Double(records))
      comparison.storeTimes.append((isRawFirst ? second : first) / Double(records))
    }
    return comparison
  }

  private func everything(_ root: FilePath, _ raw: RawContender) throws -> Comparison {
    try comparison(.collect, "everything", root, raw, everything: true)
  }

  private func known(_ root: FilePath, _ raw: RawContender) throws -> Comparison {
    try comparison(.collectKnown, "known", root, raw, everything: false)
  }

  // MARK: - Memory

  private func memory(_ root: FilePath) throws -> Comparison {
    progress("memory")
    var comparison = Comparison(
      operation: .collectMemory, size: Self.payloadSize, store: "everything", baseline: "40 MiB")
    let before = Self.peakMemory(resets: true)
    // The limit is never exceeded, but a collection with a limit also builds a histogram of the records' ages.
    try collect(root) { $0.limits.size = .max }
    comparison.storeTimes = [max(0, Self.peakMemory(resets: false) - before)]
    comparison.baselineTimes = [40]
    return comparison
  }

  /// Returns the peak memory of the process in MiB, since the last reset if the system supports resets.
  private static func peakMemory(resets: Bool) -> Double {
    #if os(Linux)
      // proc(5): writing 5 resets the high-water mark. Without permission it stays higher, which is conservative.
      if resets { try? Data("5".utf8).write(to: URL(fileURLWithPath: "/proc/self/clear_refs")) }
      let status = (try? String(contentsOfFile: "/proc/self/status", encoding: .utf8)) ?? ""
      let line = status.split(separator: "\n").first { $0.hasPrefix("VmHWM:") }
      return (line?.split(separator: " ").dropFirst().first.flatMap { Double($0) } ?? .infinity) / 1024
    #else
      var usage = rusage()
      getrusage(RUSAGE_SELF, &usage)
      return Double(usage.ru_maxrss) / Double(1 << 20)
    #endif
  }

  // MARK: - Loads beside a collection

  /// Runs collections in a child process until the parent process terminates it.
  static func collectForever(_ root: FilePath) throws -> Never {
    let suite = CollectionSuite(directory: root, records: 0, rounds: 0) { _ in }
    while true { try suite.collect(root) { _ in } }
  }

  private func loads(_ root: FilePath) throws -> [Comparison] {
    progress("loads beside a collection")
    let store = try StoreContender(directory: root, format: .reference)
    let material = Material(payloadSize: Self.payloadSize)
    // The keys are spread over all records.
    let keys = (0..<2000).map { Keys(from: $0 * (records / 2000), count: 1) }
    func latencies() throws -> [Double] {
      try keys.map { key in try time { try store.measuredLoad(key, material.payload.count) } }
    }
    var median = Comparison(operation: .loadMedian, size: Self.payloadSize, store: "collecting", baseline: "alone")
    var tail = Comparison(operation: .loadTail, size: Self.payloadSize, store: "collecting", baseline: "alone")
    for round in 0...rounds * 2 {
      let alone = try latencies().sorted()
      let beside = try besideCollections(of: root) { try latencies().sorted() }
      guard round > 0 else { continue }
      median.baselineTimes.append(alone[alone.count / 2])
      median.storeTimes.append(beside[beside.count / 2])
      tail.baselineTimes.append(alone[alone.count * 99 / 100])
      tail.storeTimes.append(beside[beside.count * 99 / 100])
    }
    return [median, tail]
  }

  private func besideCollections<Result>(of root: FilePath, _ body: () throws -> Result) throws -> Result {
    let process = Process()
    process.executableURL = Bundle.main.executableURL
    process.arguments = ["--collect-forever", root.string]
    try process.run()
    defer {
      process.terminate()
      process.waitUntilExit()
    }
    // The pause lets the child process begin its collection.
    Thread.sleep(forTimeInterval: 0.2)
    return try body()
  }

  // MARK: - Eviction

  private func eviction(_ root: FilePath, _ raw: RawContender) throws -> Comparison {
    progress("eviction")
    var comparison = Comparison(
      operation: .evict, size: Self.payloadSize, store: "a tenth", baseline: "raw walks, unlinks")
    var left = records
    // The raw unlinks remove the youngest records, because evictions take records from the oldest end.
    let sampleCount = records / 100
    for round in 0..<min(rounds, 3) {
      let walk = try time { try raw.walk(expecting: left) }
      let sample = Keys(from: round * sampleCount, count: sampleCount)
      let unlink = try time { try raw.perform(.remove, sample, Material(payloadSize: 0)) } / Double(sampleCount)
      left -= sampleCount
      var evicted = 0
      let duration = try time {
        let limit = Int64(left) * Self.recordBytes - 1
        evicted = Int(try collect(root) { $0.limits.size = limit }.evicted)
      }
      let share = Double(evicted) / Double(left)
      try BenchmarkFailure.require(abs(share - 0.1) < 0.001, "\(evicted) of \(left) records were evicted")
      comparison.storeTimes.append(duration / Double(left))
      comparison.baselineTimes.append((2 * walk + 1.3 * unlink * Double(evicted)) / Double(left))
      left -= evicted
    }
    return comparison
  }
}

extension RawContender {
  fileprivate func walk(expecting count: Int) throws {
    let found = try enumerated()
    try BenchmarkFailure.require(found == count, "the raw walk has found \(found) of \(count) records")
  }
}
