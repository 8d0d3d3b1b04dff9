/// A cache of keys without values, which counts the hits of a replacement policy.
package protocol ReplacementPolicy {
  /// - Parameters:
  ///   - capacity: The maximum total weight of the entries, above zero.
  ///   - entryCount: The approximate number of entries for this capacity.
  init(capacity: Int, entryCount: Int)

  /// Requests a key, and admits it if it is absent.
  ///
  /// - Parameter weight: The key's constant weight, which does not exceed the capacity.
  /// - Returns: A Boolean value that indicates whether the access is a hit.
  mutating func access(_ key: Int, weight: Int) -> Bool
}

extension ReplacementPolicy {
  /// Returns the hits of the policy on a trace, starting with an empty cache.
  package static func hits(on trace: AccessTrace, capacity: Int) -> HitCount {
    let entryCount = max(1, capacity / max(trace.meanWeight, 1))
    var policy = Self(capacity: capacity, entryCount: entryCount)
    var count = HitCount()
    for (key, weight) in zip(trace.keys, trace.weights) {
      let isHit = weight <= capacity && policy.access(key, weight: weight)
      count.add(isHit: isHit, weight: weight)
    }
    return count
  }
}

/// The number of requests and hits, and their weights.
package struct HitCount: Sendable {
  private var requests = 0
  private var hits = 0
  private var weight = 0
  private var hitWeight = 0

  package init() {}

  package mutating func add(isHit: Bool, weight: Int) {
    requests += 1
    self.weight += weight
    guard isHit else { return }
    hits += 1
    hitWeight += weight
  }

  package var ratio: Double { Double(hits) / Double(max(requests, 1)) }
  package var weightRatio: Double { Double(hitWeight) / Double(max(weight, 1)) }
}
