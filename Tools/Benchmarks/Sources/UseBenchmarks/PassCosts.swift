import BlobRecord
import BlobStore
import CRawFiles
import Foundation
import Measuring
import SystemPackage
import Workbench

/// Measures the additional time of evictions that choose by use, in dry runs that would evict a tenth of a directory.
struct PassCosts {
  private static let payloadByteCount = 1024
  private static let recordByteCount = Int64(payloadByteCount + RecordHeader.byteCount)
  /// The number of update times, which are a second apart.
  private static let ages = 100
  private static let now: Int64 = 1_700_000_000

  private let directory: FilePath
  private let records: Int
  private let rounds: Int

  init(in directory: FilePath, records: Int, rounds: Int) throws {
    self.directory = directory
    self.records = records
    self.rounds = rounds
    let root = raw_open_root(directory.string)
    try BenchmarkFailure.check(root, "opening \(directory)")
    defer { _ = raw_close(root) }
    for age in 0..<Self.ages {
      let (first, end) = (age * records / Self.ages, (age + 1) * records / Self.ages)
      let keys = Keys(from: first, count: end - first)
      let header = Self.header(age: age)
      try BenchmarkFailure.check(
        raw_populate(root, keys.raw, keys.raw.count, header, header.count, UInt64(Self.payloadByteCount)),
        "making \(keys.raw.count) records")
    }
    // Creates the control file and counts the records. Then the first store creates a file of uses for all records.
    let store = try store(.frequency, limit: .max)
    _ = try store.collect()
    try store.store(Data(count: Self.payloadByteCount), for: "first", ttl: .seconds(1 << 32))
    var generator = SplitMix(seed: 1)
    for _ in 0..<records / 2 {
      // The product of two random numbers favours low numbers.
      let number = Int.random(in: 0..<records, using: &generator) * Int.random(in: 1...1000, using: &generator) / 1000
      _ = try store.load(Keys(from: number, count: 1).blob[0])
    }
  }

  private static func header(age: Int) -> [UInt8] {
    let header = RecordHeader(
      ttl: UInt64(Int64.max), updateTime: UInt64(now - Int64(age)), payloadSize: UInt64(payloadByteCount))
    return header.withEncodedBytes { span in span.withUnsafeBytes { Array($0) } }
  }

  private func store(_ eviction: BlobStore.Eviction, limit: Int64) throws -> BlobStore {
    var configuration = BlobStore.Configuration()
    // Measures records that have a file each; PackBenchmarks measures packed records.
    configuration.packing = .off
    configuration.durability = .none
    configuration.limits.size = limit
    configuration.limits.freeSpaceFloor = 0
    configuration.limits.eviction = eviction
    configuration.limits.collectsOnStore = false
    configuration.now = { UnixTime(seconds: Self.now + 1) }
    return try BlobStore(directory: directory, configuration: configuration)
  }

  func measured() throws -> Cost {
    var times: [BlobStore.Eviction: [Double]] = [:]
    for round in 0...rounds {
      for index in turns(of: BlobStore.Eviction.allCases.count, in: round) {
        let eviction = BlobStore.Eviction.allCases[index]
        let store = try store(eviction, limit: Int64(records) * Self.recordByteCount)
        var options = BlobStore.CollectionOptions(dryRun: true)
        options.looksAtEverything = true
        var evicted: Int64 = 0
        let duration = try time { evicted = try store.collect(options).evicted }
        try BenchmarkFailure.require(
          abs(Double(evicted) / Double(records) - 0.1) < 0.01, "\(eviction) would evict \(evicted) records")
        // The first round reads the directory into the page cache.
        if round > 0 { times[eviction, default: []].append(duration / 1e6) }
      }
    }
    let (oldest, frequency) = (times[.oldest] ?? [], times[.frequency] ?? [])
    return Cost(
      place: "a pass over \(records) records",
      times: String(
        format: "oldest %.2f s, frequency %.2f s", Quartiles(of: oldest).median, Quartiles(of: frequency).median),
      value: Quartiles(of: zip(frequency, oldest).map { $0 / $1 }).median, limit: 1.1, isRatio: true)
  }
}
