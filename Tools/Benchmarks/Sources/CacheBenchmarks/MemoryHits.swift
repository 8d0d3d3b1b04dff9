import BlobCache
import Dispatch
import Foundation
import MemoryCache
import Synchronization
import SystemPackage

/// Numbers below `count`, the low ones often: Zipf's law with exponent 0.99, as in YCSB, by a table of its sums.
struct ZipfNumbers {
  private let sums: [Double]
  private var generator = SystemRandomNumberGenerator()

  init(count: Int) {
    var sum = 0.0
    sums = (1...count).map { rank in
      sum += pow(Double(rank), -0.99)
      return sum
    }
  }

  mutating func next() -> Int {
    let point = Double.random(in: 0..<sums[sums.count - 1], using: &generator)
    var (low, high) = (0, sums.count - 1)
    while low < high {
      let middle = (low + high) / 2
      if sums[middle] > point { high = middle } else { low = middle + 1 }
    }
    return low
  }
}

private func key(_ number: Int) -> BlobKey { BlobKey(String(format: "%032d", number)) }

/// One hundred thousand blobs, keys of 32 bytes, Zipf 0.99, one thread: `BlobCache.load` against `MemoryCache.value`.
func measureMemoryHit(_ scale: Scale) async throws -> Measurement {
  let entries = scale.count(100_000)
  let operations = scale.count(200_000)
  let payload = Data(repeating: 7, count: 128)
  var configuration = BlobCache.Configuration()
  configuration.store.durability = .none
  configuration.store.expiry.defaultTimeToLive = .seconds(100_000)
  configuration.store.access.sharing = .exclusive
  let cache = try BlobCache(directory: scale.directory.appending("memory-hit"), configuration: configuration)
  let plain = MemoryCache<BlobKey, Data>()
  let keys = (0..<entries).map(key)
  for key in keys {
    try cache.blocking.store(payload, for: key)
    plain.setValue(payload, forKey: key, cost: payload.count)
  }
  var numbers = ZipfNumbers(count: entries)
  let trace = (0..<operations).map { _ in keys[numbers.next()] }
  var times: [[Double]] = [[], []]
  for round in 0...scale.rounds {
    var durations = [0.0, 0.0]
    for index in round.isMultiple(of: 2) ? [0, 1] : [1, 0] {
      var bytes = 0
      durations[index] = try await time {
        if index == 0 {
          for key in trace { bytes += try await cache.load(key)?.payload.count ?? 0 }
        } else {
          for key in trace { bytes += plain.value(forKey: key)?.count ?? 0 }
        }
      }
      precondition(bytes == operations * payload.count, "a hit was missed")
    }
    guard round > 0 else { continue }
    for index in 0...1 { times[index].append(durations[index] / Double(operations)) }
  }
  return Measurement(
    name: .memoryHit,
    details: "BlobCache.load \(format(median(times[0]))) us, MemoryCache.value \(format(median(times[1]))) us",
    ratio: median(zip(times[0], times[1]).map { $0 / $1 }), limit: 3)
}

/// A thread to hop to, and nothing else. Not one of Dispatch's: on Linux tasks run on those, and the one that waits would
/// serve itself.
private final class HopThread: Sendable {
  private struct Errand {
    let work: @Sendable () -> Int
    let continuation: CheckedContinuation<Int, Never>
  }

  private let waiting = Mutex<Errand?>(nil)
  private let semaphore = DispatchSemaphore(value: 0)

  init() {
    Thread.detachNewThread { [self] in
      while true {
        semaphore.wait()
        guard let errand = waiting.withLock({ $0.take() }) else { continue }
        errand.continuation.resume(returning: errand.work())
      }
    }
  }

  func run(_ work: @escaping @Sendable () -> Int) async -> Int {
    await withCheckedContinuation { continuation in
      waiting.withLock { $0 = Errand(work: work, continuation: continuation) }
      semaphore.signal()
    }
  }
}

/// A blob of 4 KiB from disk: `BlobCache.load` against the store's load, and a hop to another thread and back.
///
/// The hop is the extra cost of the load on a thread that is woken for it. A hop without work in between is cheaper,
/// because the waiting thread has not fallen asleep yet.
func measureDiskHit(_ scale: Scale) async throws -> Measurement {
  let operations = scale.count(4000)
  var configuration = BlobCache.Configuration()
  configuration.memory = nil
  configuration.store.durability = .none
  let cache = try BlobCache(directory: scale.directory.appending("disk-hit"), configuration: configuration)
  let keys = (0..<100).map(key)
  let payload = Data(repeating: 7, count: 4096)
  for key in keys { try await cache.store(payload, for: key, ttl: .seconds(100_000)) }
  let thread = HopThread()
  let store = cache.store
  var times: [[Double]] = [[], [], [], []]
  for round in 0...scale.rounds {
    for index in round.isMultiple(of: 2) ? [0, 1, 2, 3] : [3, 2, 1, 0] {
      var bytes = 0
      let duration = try await time {
        for number in 0..<operations {
          let key = keys[number % keys.count]
          switch index {
          case 0: bytes += try await cache.load(key)?.payload.count ?? 0
          case 1: bytes += try store.load(key)?.payload.count ?? 0
          // A miss shows in the sum.
          case 2: bytes += await thread.run { (try? store.load(key))?.payload.count ?? 0 }
          default: bytes += await thread.run { 4096 }
          }
        }
      }
      precondition(bytes == operations * payload.count, "a load has missed")
      if round > 0 { times[index].append(duration / Double(operations)) }
    }
  }
  let ratios = times[0].indices.map { times[0][$0] / (times[2][$0] + 0.2 * times[1][$0]) }
  return Measurement(
    name: .diskHit,
    details:
      "BlobCache.load \(format(median(times[0]))) us, BlobStore.load \(format(median(times[1]))) us, on another thread "
      + "\(format(median(times[2]))) us, a hop without work \(format(median(times[3]))) us: load to hop + 1.2 loads",
    ratio: median(ratios), limit: 1)
}
