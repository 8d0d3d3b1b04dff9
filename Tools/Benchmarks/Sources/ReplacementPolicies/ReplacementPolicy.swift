/// A cache of keys without values, to count what a replacement policy hits.
package protocol ReplacementPolicy {
  /// - Parameters:
  ///   - capacity: what all entries may weigh together, above zero.
  ///   - entryCount: about how many entries that is.
  init(capacity: Int, entryCount: Int)

  /// Asks for a key, and takes it in where it is absent.
  ///
  /// - Parameter weight: the same each time, and no more than the capacity.
  /// - Returns: whether it was there.
  mutating func access(_ key: Int, weight: Int) -> Bool
}

extension ReplacementPolicy {
  /// What the policy answers of a trace, from an empty cache on.
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

/// Requests and hits, and what they weigh.
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
