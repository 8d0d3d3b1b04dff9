package import BlobRecord
internal import Locks
package import MemoryCache
internal import Posix
package import SystemPackage

// Members for tests and the reliability tools: counts of current work, and points at which they can intervene.

extension BlobCache {
  package var threadCount: Int { engine.lanes.threadCount }
  /// Makes the start of threads fail with an errno; `nil` ends the failures.
  package func failThreads(with errno: Errno?) { for lane in engine.lanes.all { lane.failThreads(with: errno) } }
  /// Does what an idle thread of the writes does before it ends.
  package func rest() { engine.lanes.writes.whenIdle() }
  /// The number of stores that wait for the bytes of a pipe.
  package var inputWaitCount: Int { engine.readiness.waiterCount }
  package var slicedObjectCount: Int { engine.slicedObjects.count }
  package var productionCount: Int { engine.productions.count }
  package var queuedProductionCount: Int { engine.places.waitingCount }
  /// Returns the number of tasks that wait for the production of a key, unless a change has superseded it.
  package func waiterCount(of key: BlobKey) -> Int {
    engine.productions.waiterCount(of: Production.Name(key: key, kind: .load))
  }
  package func refreshWaiterCount(of key: BlobKey) -> Int {
    engine.productions.waiterCount(of: Production.Name(key: key, kind: .refresh))
  }
  /// Returns the number of tasks that wait for the remote tier's blob of a key.
  package func fetchWaiterCount(of key: BlobKey) -> Int {
    [Production.Kind.fetch, .fetchFile].reduce(0) {
      $0 + engine.productions.waiterCount(of: Production.Name(key: key, kind: $1))
    }
  }
  /// Returns the number of productions of these keys that wait for others, or that others wait for.
  package func productionWaitCount(of keys: Set<BlobKey>) -> Int {
    ProductionWaits.waitCount { keys.contains($0.name.key) }
  }
  /// A Boolean value that indicates whether recorded failures of producers are freed under memory pressure.
  package var failuresRespondToMemoryPressure: Bool { engine.failures.respondsToMemoryPressure }
  /// Returns the result of a non-blocking lookup on disk, kept in memory as by a load, or `nil` without a result.
  package func blobAtOnce(_ key: BlobKey) -> Blob?? { engine.loadWithoutWaiting(key, touching: false).map(\.blob) }
  /// Returns the blob of a key from disk, kept in memory as by a load.
  package func readBlob(_ key: BlobKey, touching: Bool) throws -> Blob? {
    try openEngine().read(key, touching: touching)
  }
  /// Writes the due uses to disk, and returns when all are written.
  package func writeDueTouches() { engine.touches.write(all: false) }
  package var stagedByteCount: Int { engine.staging?.stagedByteCount ?? 0 }
  /// The minimum interval in seconds between two touches of a record from memory.
  package var touchIntervalSeconds: Int64 { engine.touches.intervalSeconds }
}

extension BlobCache {
  /// The number of blobs in memory, including outdated ones.
  package var memoryCount: Int { engine.memory?.cache.count ?? 0 }
  package var memoryByteCount: Int { engine.memory?.cache.totalCost ?? 0 }
  /// The hits and misses of the memory since the cache was created. A hit on an outdated blob counts as a hit.
  package var memoryStatistics: MemoryCacheStatistics { engine.memory?.cache.statistics ?? MemoryCacheStatistics() }
  /// The keys in memory, including the keys of outdated blobs, in the order of their last use.
  package var memoryKeys: [BlobKey] { engine.memory?.cache.keys() ?? [] }
}

extension CacheSlices {
  package var fetchCount: Int { object.flights.count }
  /// The number of reads that wait for these fetches, including reads ahead.
  package var fetchWaiterCount: Int { object.flights.waiterCount }
  /// The number of reads that wait while another read looks up which version is stored.
  package var lookupWaiterCount: Int { object.agreement.waitingCount }
}

extension Lane {
  package func failThreads(with errno: Errno?) { seams.failThreads(with: errno) }
}

/// The points in the life of a lane's threads at which tests intervene.
package final class LaneSeams: Sendable {
  /// Called when an idle thread has been chosen, and is about to receive its job.
  let willGive: @Sendable () -> Void
  /// Called when the idle time of a thread is over, before the thread checks whether it was chosen in the meantime.
  let timeIsUp: @Sendable () -> Void
  private let threadFailure = Lock<Errno?>(nil)

  package init(willGive: @escaping @Sendable () -> Void = {}, timeIsUp: @escaping @Sendable () -> Void = {}) {
    self.willGive = willGive
    self.timeIsUp = timeIsUp
  }

  /// - Throws: The errno that a test has set.
  func willStart() throws(Errno) {
    if let failure = threadFailure.withLock({ $0 }) { throw failure }
  }

  fileprivate func failThreads(with errno: Errno?) { threadFailure.withLock { $0 = errno } }
}
