internal import BlobRecord
internal import BlobStore
internal import Locks

/// What the directory's counters said while somebody looked.
final class Samples: Sendable {
  struct Sample: Sendable {
    let time: UnixTime
    let traffic: BlobStore.Traffic
    let usage: BlobStore.UsageEstimate?
  }

  /// Some minutes' worth at a sample every two seconds.
  private static let limit = 180
  /// A longer gap begins anew: between its ends, nothing is known.
  private static let longestGap: Int64 = 30

  private let samples = Lock<[Sample]>([])

  /// - Returns: all that were taken without a gap, this one the last.
  func add(_ sample: Sample) -> [Sample] {
    samples.withLock { samples in
      if let last = samples.last {
        let gap = sample.time.seconds - last.time.seconds
        // Counters that were begun anew, and a clock that was set back, begin the curve anew, too.
        if gap < 0 || gap > Self.longestGap || sample.traffic.hits < last.traffic.hits { samples = [] }
        if gap == 0, !samples.isEmpty { samples.removeLast() }
      }
      samples.append(sample)
      if samples.count > Self.limit { samples.removeFirst(samples.count - Self.limit) }
      return samples
    }
  }
}
