import BlobCache
import Foundation
import MemoryCache
import SystemPackage

/// Random numbers below `count` by Zipf's law with exponent 0.99, as in YCSB, from a table of cumulative weights.
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

/// Measures hits of 100,000 blobs, keys of 32 bytes, Zipf 0.99, one thread: `BlobCache.load` and `MemoryCache.value`.
func measureMemoryHit(_ scale: Scale) async throws -> Measurement {
  let entries = scale.count(100_000)
  let operations = scale.count(200_000)
  let payload = Data(repeating: 7, count: 128)
  var configuration = BlobCache.Configuration()
  // Measures records that have a file each; PackBenchmarks measures packed records.
  configuration.store.packing = .off
  configuration.store.durability = .none
  configuration.store.expiry.defaultTimeToLive = .seconds(100_000)
  configuration.store.access.sharing = .exclusive
  // Disabled for the same reason as in `withoutPressure`.
  configuration.memory?.respondsToMemoryPressure = false
  let cache = try BlobCache(directory: scale.directory.appending("memory-hit"), configuration: configuration)
  let plain = MemoryCache<BlobKey, Data>(.withoutPressure)
  let least = LeastCache()
  let keys = (0..<entries).map(key)
  for key in keys {
    try await cache.store(payload, for: key)
    plain.setValue(payload, forKey: key, cost: payload.count)
    least.set(payload, for: key)
  }
  var numbers = ZipfNumbers(count: entries)
  let trace = (0..<operations).map { _ in keys[numbers.next()] }
  let contenders: [() async throws -> Int] = [
    {
      var bytes = 0
      for key in trace { bytes += try await cache.load(key)?.payload.count ?? 0 }
      return bytes
    },
    {
      var bytes = 0
      for key in trace { bytes += plain.value(forKey: key)?.count ?? 0 }
      return bytes
    },
    {
      var bytes = 0
      for key in trace { bytes += try await least.load(key)?.payload.count ?? 0 }
      return bytes
    },
  ]
  let times = try await turns(
    scale,
    contenders.map { contender in
      {
        let bytes = try await contender()
        precondition(bytes == operations * payload.count, "a hit was missed")
      }
    })
  func each(_ index: Int) -> String { format(median(times[index]) / Double(operations)) }
  return Measurement(
    name: .memoryHit,
    details:
      "BlobCache.load \(each(0)) us, MemoryCache.value \(each(1)) us; the least that a hit has to do \(each(2)) us, "
      + "\(format(ratio(times[2], times[1])))",
    ratio: ratio(times[0], times[1]), limit: 1.6)
}
