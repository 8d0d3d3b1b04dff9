#if Metrics
  internal import Metrics

  /// Counters and timers of swift-metrics, with the directory as the dimension `cache`: see the article Metrics.
  struct CacheMetrics: Sendable {
    private let memoryHits, stagedHits, diskHits, remoteHits, misses, stores, removals, damages, productions, stale,
      failures: Counter
    private let memoryExpired, diskExpired, memoryEvicted, diskEvicted, collections: Counter
    private let storedBytes, loadedBytes: Counter
    private let uploads, remoteFailures, remoteDrops: Counter
    private let loadTimer, storeTimer, productionTimer, queueTimer: Metrics.Timer

    /// - Returns: `nil` if no metrics system was bootstrapped when the cache was created, so that nothing is counted.
    init?(cache: String) {
      guard !(MetricsSystem.factory is NOOPMetricsHandler) else { return nil }
      let name = [("cache", cache)]
      func counter(_ label: String, _ more: [(String, String)] = []) -> Counter {
        Counter(label: "blobcache." + label, dimensions: name + more)
      }
      func timer(_ label: String) -> Metrics.Timer { Metrics.Timer(label: "blobcache." + label, dimensions: name) }
      memoryHits = counter("hits", [("tier", "memory")])
      stagedHits = counter("hits", [("tier", "staged")])
      diskHits = counter("hits", [("tier", "disk")])
      remoteHits = counter("hits", [("tier", "remote")])
      misses = counter("misses")
      stores = counter("stores")
      removals = counter("removals")
      damages = counter("damages")
      productions = counter("productions")
      stale = counter("stale")
      failures = counter("write_failures")
      memoryExpired = counter("expired", [("tier", "memory")])
      diskExpired = counter("expired", [("tier", "disk")])
      memoryEvicted = counter("evicted", [("tier", "memory")])
      diskEvicted = counter("evicted", [("tier", "disk")])
      collections = counter("collections")
      uploads = counter("remote_uploads")
      remoteFailures = counter("remote_failures")
      remoteDrops = counter("remote_drops")
      storedBytes = counter("stored_bytes")
      loadedBytes = counter("loaded_bytes")
      loadTimer = timer("load")
      storeTimer = timer("store")
      productionTimer = timer("production")
      queueTimer = timer("queue")
    }

    func record(_ event: CacheEvent) {
      switch event.kind {
      case .stored(let staged):
        stores.increment()
        storedBytes.increment(by: event.byteCount)
        // A staged blob is timed when it is written.
        if !staged { storeTimer.recordNanoseconds(event.duration.clampedNanoseconds) }
      case .written: storeTimer.recordNanoseconds(event.duration.clampedNanoseconds)
      case .hit(let tier):
        hits(in: tier).increment()
        loadedBytes.increment(by: event.byteCount)
        if tier == .disk { loadTimer.recordNanoseconds(event.duration.clampedNanoseconds) }
      case .miss: misses.increment()
      case .expired(let tier): (tier == .disk ? diskExpired : memoryExpired).increment()
      case .evicted(let tier): (tier == .disk ? diskEvicted : memoryEvicted).increment()
      case .removed: removals.increment()
      case .extendedDataReplaced, .fetched: break
      case .uploaded: uploads.increment()
      case .remoteFailed: remoteFailures.increment()
      case .remoteChangeDropped: remoteDrops.increment()
      case .damaged: damages.increment()
      case .produced:
        productions.increment()
        productionTimer.recordNanoseconds(event.duration.clampedNanoseconds)
      case .stale: stale.increment()
      case .writeFailed: failures.increment()
      case .collected: collections.increment()
      }
      if event.queueTime > .zero { queueTimer.recordNanoseconds(event.queueTime.clampedNanoseconds) }
    }

    private func hits(in tier: CacheEvent.Tier) -> Counter {
      switch tier {
      case .memory: memoryHits
      case .staged: stagedHits
      case .disk: diskHits
      case .remote: remoteHits
      }
    }
  }

  extension Duration {
    fileprivate var clampedNanoseconds: Int64 {
      Int64(clamping: Int128(self / .nanoseconds(1)))
    }
  }
#else
  /// The implementation without the trait `Metrics`.
  struct CacheMetrics: Sendable {
    init?(cache: String) { return nil }
    func record(_ event: CacheEvent) {}
  }
#endif
