import MemoryCache
import ReplacementPolicies

/// The hit ratios of all policies on one trace with one capacity.
struct HitRatios {
  let trace: String
  let capacity: Int
  /// The ratios in the order of `policies`.
  let ratios: [Double]

  static let policies: [(name: String, make: @Sendable (Int) -> any ReplacementPolicy)] = [
    ("LRU", { LRUPolicy(capacity: $0, entryCount: $0) }), ("SIEVE", { SievePolicy(capacity: $0, entryCount: $0) }),
    ("S3-FIFO", { S3FIFOPolicy(capacity: $0, entryCount: $0) }),
    ("W-TinyLFU", { WTinyLFUPolicy(capacity: $0, entryCount: $0) }),
    ("MemoryCache lru", { MemoryCachePolicy(capacity: $0, policy: .lru) }),
    ("MemoryCache wTinyLFU", { MemoryCachePolicy(capacity: $0, policy: .wTinyLFU) }),
  ]

  init(_ trace: AccessTrace, capacity: Int) {
    self.trace = trace.name
    self.capacity = capacity
    ratios = Self.policies.map { $0.make(capacity).hitRatio(on: trace) }
  }

  /// Measures traces with a hundred keys for each entry of the smaller cache.
  static func measure(length: Int) -> [HitRatios] {
    let keyCount = length / 10
    let traces: [AccessTrace] = [
      .zipf(0.99, keyCount: keyCount, length: length), .zipf(0.7, keyCount: keyCount, length: length),
      .zipfWithScans(keyCount: keyCount, length: length, scanLength: keyCount / 5),
      .shiftingZipf(keyCount: keyCount, length: length),
      .loop(keyCount: keyCount / 8, length: length), .loop(keyCount: keyCount / 5, length: length),
      .zipfAndLoop(keyCount: keyCount, loopCount: keyCount * 3 / 20, length: length),
    ]
    return [keyCount / 100, keyCount / 10].flatMap { capacity in
      traces.map { HitRatios($0, capacity: capacity) }
    }
  }
}

extension ReplacementPolicy {
  fileprivate func hitRatio(on trace: AccessTrace) -> Double {
    var policy = self
    let hits = trace.keys.count { policy.access($0, weight: 1) }
    return Double(hits) / Double(trace.keys.count)
  }
}
