import CLRU
import Foundation
import Measuring
import MemoryCache
import ReplacementPolicies
import Synchronization

/// A value that the cache shares with its callers, as the compared caches do.
final class CachedValue: Sendable {
  let number: UInt64
  init(_ number: UInt64) { self.number = number }
}

/// Keys of 32 bytes and their request order, which follows Zipf's law with exponent 0.99. All requests are hits.
struct HitMaterial {
  static let keyLength = 32
  /// The requested keys.
  let keys: [String]
  /// Keys that equal `keys` but have separate storage, because comparing strings with shared storage reads no bytes.
  let storedKeys: [String]
  let positions: [UInt32]

  init(keyCount: Int, requestCount: Int) {
    var generator = SplitMix(seed: 5)
    // A random order maps ranks to keys, so that popular keys are not adjacent in memory.
    let order = (0..<keyCount).shuffled(using: &generator)
    let distribution = ZipfDistribution(count: keyCount, exponent: 0.99)
    positions = (0..<requestCount).map { _ in UInt32(order[distribution.next(using: &generator)]) }
    keys = (0..<keyCount).map { _ in
      (0..<2).map { _ in
        let digits = String(generator.next(), radix: 16)
        return String(repeating: "0", count: 16 - digits.count) + digits
      }
      .joined()
    }
    storedKeys = keys.map { String(decoding: Array($0.utf8), as: UTF8.self) }
  }
}

/// A cache that answers requests.
struct Contender {
  let name: String
  /// Requests the keys at these positions, and returns the sum of the values' numbers.
  let request: (ArraySlice<UInt32>) -> UInt64
}

extension Contender {
  /// Returns a cache in C++ that consists of an unordered_map, a list and a mutex.
  static func cpp(_ material: HitMaterial) -> Contender {
    // Lives as long as the process.
    let cache = lru_create(material.keys.count)!
    let keys = lru_make_keys(material.keys.joined(), HitMaterial.keyLength, material.keys.count)!
    lru_fill(cache, keys)
    return Contender(name: "C++") { positions in
      positions.withUnsafeBufferPointer { lru_get(cache, keys, $0.baseAddress, $0.count) }
    }
  }

  /// Returns a baseline that every cache includes: a Swift dictionary under a lock, without order, clock or counters.
  static func dictionary(_ material: HitMaterial) -> Contender {
    let values = material.storedKeys.indices.map { CachedValue(UInt64($0)) }
    let cache = LockedDictionary(Dictionary(uniqueKeysWithValues: zip(material.storedKeys, values)))
    return Contender(name: "Dictionary in a Mutex, no order") { positions in
      var sum: UInt64 = 0
      for position in positions { sum &+= cache.value(forKey: material.keys[Int(position)])?.number ?? 0 }
      return sum
    }
  }

  static func memoryCache<Key: Hashable & Sendable>(
    _ name: String, _ material: HitMaterial, _ makeKey: (String) -> Key, policy: EvictionPolicy = .lru, shards: Int = 1
  ) -> Contender {
    let cache = filledCache(material.storedKeys.map(makeKey), policy: policy, shards: shards)
    let keys = material.keys.map(makeKey)
    return Contender(name: name) { sum(cache, keys, $0) }
  }

  /// Returns two NSCache contenders: one with existing NSString keys, and one with keys bridged from String.
  static func foundation(_ material: HitMaterial) -> [Contender] {
    let cache = NSCache<NSString, CachedValue>()
    cache.countLimit = material.keys.count
    for (index, key) in material.storedKeys.enumerated() {
      cache.setObject(CachedValue(UInt64(index)), forKey: NSString(string: key))
    }
    func contender(_ name: String, _ key: @escaping (Int) -> NSString) -> Contender {
      Contender(name: name) { positions in
        var sum: UInt64 = 0
        for position in positions { sum &+= cache.object(forKey: key(Int(position)))?.number ?? 0 }
        return sum
      }
    }
    let keys = material.keys.map { NSString(string: $0) }
    return [
      contender("NSCache, NSString", { keys[$0] }),
      contender("NSCache, String", { NSString(string: material.keys[$0]) }),
    ]
  }
}

private final class LockedDictionary: Sendable {
  private let values: Mutex<[String: CachedValue]>

  init(_ values: [String: CachedValue]) { self.values = Mutex(values) }

  func value(forKey key: String) -> CachedValue? { values.withLock { $0[key] } }
}

func filledCache<Key: Hashable & Sendable>(
  _ keys: [Key], policy: EvictionPolicy = .lru, shards: Int = 1
) -> MemoryCache<Key, CachedValue> {
  // Hashing fills shards unevenly, so the limit has spare room to make every request a hit.
  let limits = MemoryCacheLimits(count: shards == 1 ? keys.count : keys.count * 2)
  var configuration = MemoryCacheConfiguration(limits: limits, policy: policy)
  configuration.shards = shards
  let cache = MemoryCache<Key, CachedValue>(configuration)
  for (index, key) in keys.enumerated() { cache.setValue(CachedValue(UInt64(index)), forKey: key) }
  return cache
}

@inline(never)
func sum<Key: Hashable & Sendable>(
  _ cache: MemoryCache<Key, CachedValue>, _ keys: [Key], _ positions: ArraySlice<UInt32>
) -> UInt64 {
  var sum: UInt64 = 0
  for position in positions { sum &+= cache.value(forKey: keys[Int(position)])?.number ?? 0 }
  return sum
}

/// The time of a hit for each contender, in rounds in which the contenders take turns.
struct HitComparison {
  let names: [String]
  /// The processor time of a hit in nanoseconds, by round and contender.
  let times: [[Double]]

  init(_ contenders: [Contender], _ positions: [UInt32], rounds: Int) {
    names = contenders.map(\.name)
    let size = positions.count / 50
    var expected: UInt64?
    times = (0...rounds).map { round in
      let first = round % 50 * size
      let slice = positions[first..<first + size]
      var times = Array(repeating: 0.0, count: contenders.count)
      let turns = round.isMultiple(of: 2) ? Array(contenders.indices) : contenders.indices.reversed()
      expected = nil
      for index in turns {
        var sum: UInt64 = 0
        times[index] = ThreadTime.measure { sum = contenders[index].request(slice) } / Double(size)
        precondition(sum == expected ?? sum, "\(contenders[index].name) does not find what the others find")
        expected = sum
      }
      return times
    }
    .suffix(rounds)  // the first round warms up
  }

  func time(_ contender: Int) -> Double { Quartiles(of: times.map { $0[contender] }).median }

  /// Returns the quartiles of the rounds' ratios of two contenders' times.
  func ratio(_ contender: Int, to baseline: Int) -> Quartiles {
    Quartiles(of: times.map { $0[contender] / $0[baseline] })
  }
}
