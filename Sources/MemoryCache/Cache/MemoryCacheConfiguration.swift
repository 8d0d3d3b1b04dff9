public import Dispatch

/// How a `MemoryCache` behaves. All but the limits is fixed once the cache is made.
public struct MemoryCacheConfiguration: Sendable {
  /// For its owner to tell caches apart.
  public var name = ""
  public var limits: MemoryCacheLimits
  /// The lifetime of entries that are set without one.
  public var lifetime = EntryLifetime.unlimited
  public var policy: EvictionPolicy
  /// The number of parts of the cache, each with a lock of its own.
  ///
  /// A key's hash chooses its part. The number is rounded up to a power of two, 256 at most. A count limit lowers it to
  /// one for each 32 entries.
  ///
  /// With one, the default, the order of eviction is exact. With more, threads seldom wait for each other. But each
  /// part has its share of the limits and evicts by itself. An entry dearer than a part's share of the cost limit is not
  /// kept.
  public var shards = 1
  /// How often expired and long unused entries are freed; nil for never.
  ///
  /// They are never served in any case. The timer starts with the first entry that can expire and stops with the cache.
  public var trimInterval: Duration? = .seconds(5)
  /// Whether the cache responds to `MemoryPressureMonitor.shared`.
  public var respondsToMemoryPressure = true
  /// Called for each place where pressure cannot be watched; nil for no call.
  ///
  /// Each place is told once in a process, by one of its caches.
  public var onPressureFailure: (@Sendable (MemoryPressureSource) -> Void)?
  /// Whether costs are bytes of memory.
  ///
  /// Then a cache that responds to memory pressure looks at its control group's limit also while it grows. It does so after
  /// each mebibyte, or 64th of its contents. Filled fast, it would outgrow the group within a second.
  public var costsAreBytes = false
  /// The share of entries and cost that stays under `.warning`.
  ///
  /// With 1, only expired entries go. At `.critical`, `criticalKeptShare` holds.
  public var warningKeptShare = 0.5
  public var criticalKeptShare = 0.0
  /// Where removed values are released; nil for the thread that removes them, outside the lock. A value whose release
  /// takes long, or must happen on the main thread, goes to that queue.
  public var releaseQueue: DispatchQueue?
  /// The time, for ages and lifetimes; nil for `CacheInstant.now`. Called outside the lock, once for each operation. A
  /// clock that goes back makes entries live longer.
  public var now: (@Sendable () -> CacheInstant)?

  /// The source of pressure; tests have another one.
  package var pressureMonitor = MemoryPressureMonitor.shared

  public init(limits: MemoryCacheLimits = MemoryCacheLimits(), policy: EvictionPolicy = .lru) {
    self.limits = limits
    self.policy = policy
  }

  /// How much a shard grows between two looks at the control group.
  ///
  /// It is at least that much; nil for no looks.
  func growthStep(of shardCount: Int) -> Int? {
    respondsToMemoryPressure && costsAreBytes ? (1 << 20) / shardCount : nil
  }

  var shardCount: Int {
    var count = 1
    let most = limits.count.map { max($0 / 32, 1) } ?? 256
    while count < min(shards, 256), count * 2 <= most { count *= 2 }
    return count
  }
}
