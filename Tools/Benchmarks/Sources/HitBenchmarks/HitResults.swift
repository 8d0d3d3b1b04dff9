import BlobStore
import Foundation
import ReplacementPolicies
import Workbench

/// The hits of each policy on one trace with one cache size.
struct HitResults {
  static let titles = ["trace", "share", "by"] + names

  private static let names = ["frequency", "oldest", "FIFO", "LRU", "SIEVE", "S3-FIFO", "W-TinyLFU", "Belady"]
  private let trace: AccessTrace
  private let share: Double
  /// The counts in the order of `names`.
  private let counts: [HitCount]

  init(_ trace: AccessTrace, share: Double, workspace: Workspace) throws {
    self.trace = trace
    self.share = share
    let capacity = max(Int(Double(trace.weightOfKeys) * share), 10 * trace.meanWeight)
    let replays = try [BlobStore.Eviction.frequency, .oldest].map {
      try StoreReplay(in: workspace.path.appending("\($0)"), eviction: $0).hits(on: trace, capacity: capacity)
    }
    counts =
      replays + [
        FIFOPolicy.hits(on: trace, capacity: capacity), LRUPolicy.hits(on: trace, capacity: capacity),
        SievePolicy.hits(on: trace, capacity: capacity), S3FIFOPolicy.hits(on: trace, capacity: capacity),
        WTinyLFUPolicy.hits(on: trace, capacity: capacity), BeladyReplay.hits(on: trace, capacity: capacity),
      ]
  }

  /// The table rows: by requests, and by bytes if the trace has weights.
  var rows: [[String]] {
    let start = [trace.name, String(format: "%g", share)]
    let requests = start + ["requests"] + counts.map { String(format: "%.3f", $0.ratio) }
    guard trace.isWeighted else { return [requests] }
    return [requests, start + ["bytes"] + counts.map { String(format: "%.3f", $0.weightRatio) }]
  }

  /// One JSON object per policy.
  var lines: [String] {
    zip(Self.names, counts).map { name, count in
      let policy = name.lowercased().replacing("-", with: "")
      return """
        {"type":"hits","trace":"\(trace.name)","share":\(share),"policy":"\(policy)",\
        "hitRatio":\(String(format: "%.4f", count.ratio)),"byteHitRatio":\(String(format: "%.4f", count.weightRatio))}
        """
    }
  }
}

extension AccessTrace {
  fileprivate var isWeighted: Bool { weights.contains { $0 != 1 } }
}
