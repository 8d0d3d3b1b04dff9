import BlobCache
import BlobRecord
import BlobStore
import Foundation
import Measuring
import SystemPackage
import Workbench

#if canImport(Darwin)
  import Darwin
#elseif canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#elseif canImport(Android)
  import Android
#endif

/// A task of a worker process: loads from memory or from disk.
enum UseTask: String, CaseIterable {
  case memory
  case disk

  var operations: Int { self == .memory ? 200_000 : 4000 }
}

/// Performs loads on request and reports their times: one line of input, one line of output.
struct UseWorker {
  private let caches: [BlobStore.Eviction: BlobCache]
  private let trace: [BlobKey]

  /// All keys fit into memory.
  static let keyCount = 8000
  private static let payload = Data(repeating: 7, count: 4096 - RecordHeader.byteCount)
  /// The Zipf exponent, by which popular keys have many requests.
  private static let exponent = 0.99

  init(in directory: FilePath) throws {
    caches = try Dictionary(
      uniqueKeysWithValues: BlobStore.Eviction.allCases.map {
        ($0, try BlobCache(directory: directory.appending($0.rawValue), configuration: Self.configuration($0)))
      })
    var generator = SplitMix(seed: UInt64(getpid()))
    let sums = (1...Self.keyCount).reduce(into: [0.0]) { $0.append($0[$0.count - 1] + pow(Double($1), -Self.exponent)) }
    trace = (0..<UseTask.memory.operations).map { _ in
      let point = Double.random(in: 0..<sums[Self.keyCount], using: &generator)
      return Self.key(sums.partitioningIndex { $0 > point } - 1)
    }
  }

  private static func key(_ number: Int) -> BlobKey { BlobKey(String(format: "%032d", number)) }

  private static func configuration(_ eviction: BlobStore.Eviction) -> BlobCache.Configuration {
    var configuration = BlobCache.Configuration()
    // Measures records that have a file each; PackBenchmarks measures packed records.
    configuration.store.packing = .off
    configuration.store.durability = .none
    configuration.store.limits.eviction = eviction
    configuration.store.limits.size = 1 << 40
    configuration.store.limits.freeSpaceFloor = 0
    return configuration
  }

  /// Stores the records for all workers, with a time to live, so that no load changes an update time.
  static func prepare(_ directory: FilePath) throws {
    for eviction in BlobStore.Eviction.allCases {
      let store = try BlobStore(
        directory: directory.appending(eviction.rawValue), configuration: configuration(eviction).store)
      for number in 0..<keyCount { try store.store(payload, for: key(number), ttl: .seconds(1 << 32)) }
    }
  }

  func serve() async throws {
    while let line = readLine() {
      let words = line.split(separator: " ").map(String.init)
      guard words.count == 2, let task = UseTask(rawValue: words[0]),
        let eviction = BlobStore.Eviction(rawValue: words[1])
      else { throw BenchmarkFailure("\"\(line)\" is no task") }
      print(try await nanoseconds(task, eviction))
      fflush(nil)
    }
  }

  /// Returns the processor time of one load.
  private func nanoseconds(_ task: UseTask, _ eviction: BlobStore.Eviction) async throws -> Double {
    guard let cache = caches[eviction] else { return 0 }
    var bytes = 0
    let keys = trace.prefix(task.operations)
    let start = Self.processorTime()
    switch task {
    case .memory: for key in keys { bytes += try await cache.load(key)?.payload.count ?? 0 }
    case .disk: for key in keys { bytes += try cache.store.load(key)?.payload.count ?? 0 }
    }
    let time = Self.processorTime() - start
    try BenchmarkFailure.require(bytes == keys.count * Self.payload.count, "a load has missed")
    return time / Double(keys.count)
  }

  /// Returns the processor time of this process in nanoseconds.
  private static func processorTime() -> Double {
    var time = timespec()
    // Fails only for invalid clocks and pointers.
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
    return Double(time.tv_sec) * 1e9 + Double(time.tv_nsec)
  }
}

extension Array {
  /// Returns the first index at which the condition holds, by binary search.
  fileprivate func partitioningIndex(where isBeyond: (Element) -> Bool) -> Int {
    var (low, high) = (0, count)
    while low < high {
      let middle = (low + high) / 2
      if isBeyond(self[middle]) { high = middle } else { low = middle + 1 }
    }
    return low
  }
}
