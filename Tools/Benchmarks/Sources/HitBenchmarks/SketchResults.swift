import Foundation
import Measuring
import ReplacementPolicies

/// Whether caches in memory that admit by use answer more with a sketch that processes share than with their own.
///
/// The shared one is the disk's: as large as a disk needs that holds ten times as much, so it halves its counts ten times as
/// seldom. It knows the uses of all processes.
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

  /// Each request is asked for by one process, by chance; each has its own memory.
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
