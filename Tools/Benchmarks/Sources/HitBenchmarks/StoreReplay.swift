import BlobRecord
import BlobStore
import Foundation
import ReplacementPolicies
import Synchronization
import SystemPackage
import Workbench

/// Replays a trace through a store with a size limit: one load per request, and a store after each miss.
///
/// The clock advances by a second with each request. The time to live never ends, so no load changes an update time.
/// Each store's eviction ends before the next request, as it would with time between requests. The walk that selects
/// the next victims ends approximately by then; the order of uses changes concurrently.
struct StoreReplay {
  let directory: FilePath
  let eviction: BlobStore.Eviction

  /// The record size in bytes for traces without weights.
  private static let unitByteCount = 256
  private static let patience: Duration = .seconds(60)
  /// The approximate time of an eviction walk per record.
  private static let microsecondsPerRecord = 5

  init(in directory: FilePath, eviction: BlobStore.Eviction) {
    self.directory = directory
    self.eviction = eviction
  }

  func hits(on trace: AccessTrace, capacity: Int) throws -> HitCount {
    let unit = trace.meanWeight == 1 ? Self.unitByteCount : 1
    let limit = Int64(capacity * unit)
    let clock = ReplayClock()
    let store = try store(limit: limit, clock)
    let payload = Data(count: (trace.weights.max() ?? 0) * unit)
    var count = HitCount()
    for (key, weight) in zip(trace.keys, trace.weights) {
      let blobKey = Self.key(key)
      let isHit = try store.load(blobKey) != nil
      count.add(isHit: isHit, weight: weight)
      if !isHit, weight <= capacity {
        try store.store(
          payload.prefix(weight * unit - RecordHeader.byteCount), for: blobKey, ttl: .seconds(1 << 32))
        if try waitForEviction(store, limit), eviction == .frequency {
          usleep(UInt32(capacity / trace.meanWeight * Self.microsecondsPerRecord))
        }
      }
      clock.advance()
    }
    return count
  }

  private func store(limit: Int64, _ clock: ReplayClock) throws -> BlobStore {
    var configuration = BlobStore.Configuration()
    // Measures records that have a file each; PackBenchmarks measures packed records.
    configuration.packing = .off
    configuration.limits.size = limit
    configuration.limits.freeSpaceFloor = 0
    configuration.limits.eviction = eviction
    configuration.now = { clock.now }
    return try BlobStore(directory: directory, configuration: configuration)
  }

  /// - Returns: A Boolean value that indicates whether an eviction was necessary.
  private func waitForEviction(_ store: BlobStore, _ limit: Int64) throws -> Bool {
    var waits = false
    let end = ContinuousClock.now + Self.patience
    while let usage = try store.usageEstimate(), usage.bytes > limit {
      try BenchmarkFailure.require(.now < end, "\(directory): \(usage.bytes) bytes stay above \(limit)")
      waits = true
      usleep(50)
    }
    return waits
  }

  /// Returns a key whose digits spread the keys over subdirectories, as typical keys do.
  private static func key(_ number: Int) -> BlobKey {
    BlobKey(String(UInt64(number) &* 0x9E37_79B9_7F4A_7C15, radix: 36))
  }
}

/// A clock that the replay advances.
private final class ReplayClock: Sendable {
  private let seconds = Atomic<Int64>(1_700_000_000)

  var now: UnixTime { UnixTime(seconds: seconds.load(ordering: .relaxed)) }

  func advance() { seconds.add(1, ordering: .relaxed) }
}
