import Foundation
package import Measuring

/// A sequence of requests for keys.
package struct AccessTrace: Sendable {
  package let name: String
  package let keys: [Int]
  /// The weight of each request's key.
  package let weights: [Int]

  /// - Parameter weights: The weight of each request, or `nil` for a weight of 1. The first weight of a key applies.
  package init(name: String, keys: [Int], weights: [Int]? = nil) {
    self.name = name
    self.keys = keys
    var first: [Int: Int] = [:]
    self.weights =
      weights.map {
        zip(keys, $0).map { key, weight in
          first[key]
            ?? {
              first[key] = weight; return weight
            }()
        }
      }
      ?? [Int](repeating: 1, count: keys.count)
  }

  /// The sum of the weights of all distinct keys.
  package var weightOfKeys: Int {
    var seen: Set<Int> = []
    return zip(keys, weights).reduce(0) { seen.insert($1.0).inserted ? $0 + $1.1 : $0 }
  }

  package var keyCount: Int { Set(keys).count }

  package var meanWeight: Int { weightOfKeys / max(keyCount, 1) }
}

/// A Zipf distribution of ranks: rank r, from 0, has a weight of 1 / (r + 1) ^ exponent.
package struct ZipfDistribution {
  private let cumulative: [Double]

  package init(count: Int, exponent: Double) {
    var sum = 0.0
    cumulative = (1...count).map { rank in
      sum += 1 / pow(Double(rank), exponent)
      return sum
    }
  }

  package func next(using generator: inout SplitMix) -> Int {
    let target = Double.random(in: 0..<cumulative[cumulative.count - 1], using: &generator)
    var (low, high) = (0, cumulative.count - 1)
    while low < high {
      let middle = (low + high) / 2
      if cumulative[middle] > target { high = middle } else { low = middle + 1 }
    }
    return low
  }
}

extension AccessTrace {
  /// Returns a trace with a constant Zipf popularity.
  package static func zipf(_ exponent: Double, keyCount: Int, length: Int) -> AccessTrace {
    let distribution = ZipfDistribution(count: keyCount, exponent: exponent)
    var generator = SplitMix(seed: 1)
    return AccessTrace(
      name: "zipf \(exponent)", keys: (0..<length).map { _ in distribution.next(using: &generator) })
  }

  /// Returns a Zipf trace with scans over keys that occur only once, in which two of five accesses belong to a scan.
  package static func zipfWithScans(keyCount: Int, length: Int, scanLength: Int) -> AccessTrace {
    let distribution = ZipfDistribution(count: keyCount, exponent: 0.99)
    var generator = SplitMix(seed: 2)
    var keys: [Int] = []
    var fresh = keyCount
    while keys.count < length {
      for _ in 0..<scanLength * 3 / 2 { keys.append(distribution.next(using: &generator)) }
      keys += fresh..<fresh + scanLength
      fresh += scanLength
    }
    return AccessTrace(name: "zipf and scans", keys: Array(keys.prefix(length)))
  }

  /// Returns a Zipf trace whose popular keys change after each tenth.
  package static func shiftingZipf(keyCount: Int, length: Int) -> AccessTrace {
    let distribution = ZipfDistribution(count: keyCount, exponent: 0.99)
    var generator = SplitMix(seed: 3)
    return AccessTrace(
      name: "shifting zipf",
      keys: (0..<length).map { distribution.next(using: &generator) + $0 / max(length / 10, 1) * keyCount })
  }

  /// Returns a loop: all keys in a fixed order, repeatedly.
  package static func loop(keyCount: Int, length: Int) -> AccessTrace {
    AccessTrace(name: "loop of \(keyCount)", keys: (0..<length).map { $0 % keyCount })
  }

  /// Returns a trace that alternates between a loop and Zipf after a thousand accesses each.
  package static func zipfAndLoop(keyCount: Int, loopCount: Int, length: Int) -> AccessTrace {
    let distribution = ZipfDistribution(count: keyCount, exponent: 0.99)
    var generator = SplitMix(seed: 4)
    var position = 0
    let keys = (0..<length).map { index in
      if index / 1000 % 2 == 0 { return distribution.next(using: &generator) }
      position = (position + 1) % loopCount
      return keyCount + position
    }
    return AccessTrace(name: "zipf and loop", keys: keys)
  }
}
