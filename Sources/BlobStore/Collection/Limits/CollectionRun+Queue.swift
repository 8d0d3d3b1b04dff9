internal import Posix

extension CollectionRun {
  /// Removes records that an earlier walk has found to be next, without a walk.
  ///
  /// It ends when by the counters the limits' targets are reached; or when the limits are kept and a batch is gone, where
  /// that is less.
  func evict(_ queue: inout EvictionQueue, limit: () -> StoreLimit) throws {
    let clock = CollectionClock(self, .eviction)
    try evictBatch(&queue, limit)
    clock.end()
  }

  private func evictBatch(_ queue: inout EvictionQueue, _ limit: () -> StoreLimit) throws {
    guard let control, let open = try core.root.opened() else { return }
    let configuration = core.configuration
    let volumeTarget = limit().volumeBytes.share(configuration.limits.evictionTarget)
    let target = (
      bytes: min(configuration.sizeTarget ?? .max, volumeTarget), records: configuration.countTarget ?? .max
    )
    let batch = control.counters.flatMap { EvictionBatch(core, $0) }
    let subdirectories = LastSubdirectory(open)
    while !tally.isStopped, let usage = control.counters {
      let inForce = limit()
      if inForce.isExceeded(by: usage) {
        tally.evictions.cause = inForce.cause(of: usage)
      } else {
        if usage.bytes <= target.bytes, usage.records <= target.records { break }
        if let batch, batch.isReached(files: report.evicted, bytes: report.bytesFreed) { break }
      }
      guard let candidate = queue.next() else { break }
      // A record that was used since it was met is left to the next walk.
      if sizes.order.wasUsed(candidate.path.digest, since: candidate.standing) { continue }
      sizes.evict(candidate, in: subdirectories)
    }
  }
}

extension StoreLimit {
  /// The cause of an eviction where the limit is exceeded: the first of several.
  fileprivate func cause(of usage: BlobStore.UsageEstimate) -> EvictionCause {
    if usage.bytes > volumeBytes, volumeBytes < bytes ?? .max { return .freeSpace }
    return usage.bytes > bytes ?? .max ? .sizeLimit : .countLimit
  }
}

extension BlobStore.Configuration {
  /// The bytes that an eviction leaves; nil without a limit.
  var sizeTarget: Int64? { limits.size?.share(limits.evictionTarget) }
  var countTarget: Int64? { limits.count?.share(limits.evictionTarget) }
}
