import Foundation
import Measuring
import ReplacementPolicies

/// Compares the hit ratios of memory caches that share a frequency sketch with those of caches with a private sketch.
///
/// The shared sketch belongs to the disk. It is sized for a disk with ten times the capacity, so it halves its counts
/// a tenth as often. It counts the uses of all processes.
struct SketchResults {
  static let titles = ["trace", "share", "own", "shared", "two processes: own", "shared"]

  private static let sharesOfDisk = 10
  private let trace: AccessTrace
  private let share: Double
  private let ratios: [Double]

  init(_ trace: AccessTrace, share: Double) {
    self.trace = trace
    self.share = share
    ratios = [1, 2].flatMap { processes in
      [false, true].map { Self.ratio(trace, share: share, processes: processes, isShared: $0) }
    }
  }

  /// Assigns each request to a random process. Each process has a separate memory cache.
  private static func ratio(_ trace: AccessTrace, share: Double, processes: Int, isShared: Bool) -> Double {
    let capacity = max(Int(Double(trace.keyCount) * share), 10)
    let common = FrequencySketch(capacity: capacity * sharesOfDisk)
    var caches = (0..<processes).map { _ in
      WTinyLFUPolicy(capacity: capacity, sketch: isShared ? common : FrequencySketch(capacity: capacity))
    }
    var generator = SplitMix(seed: 1)
    var count = HitCount()
    for key in trace.keys {
      let process = Int.random(in: 0..<processes, using: &generator)
      count.add(isHit: caches[process].access(key, weight: 1), weight: 1)
    }
    return count.ratio
  }

  var row: [String] { [trace.name, String(format: "%g", share)] + ratios.map { String(format: "%.3f", $0) } }
}
