public import BlobStore
public import MemoryCache

extension BlobCache {
  /// The configuration of a cache.
  ///
  /// Caches on one directory in one process share its store, memory and threads, so their configurations must be equal,
  /// except for clocks, the logger and the limits of concurrency, for which the first cache's values are used.
  public struct Configuration: Sendable {
    /// The configuration of the directory: layout, expiry, size limit, durability, clock, logger.
    public var store = BlobStore.Configuration()
    /// The limits of the memory tier, or `nil` to disable it.
    public var memory: Memory? = Memory()
    /// The maximum number of concurrent blocking calls of each kind, at least one.
    ///
    /// It applies separately to loads, to stores, touches and locks, and to copies of files. Removals get a quarter,
    /// enumerations half, each at least one; collections and deferred work get two. Idle threads end.
    public var maxConcurrentOperations = 4
    /// The maximum number of concurrent producers of `load(_:orStore:)`, at least one, or `nil` for no limit.
    ///
    /// Others wait in order. A producer that another producer waits for is not counted, which prevents deadlocks.
    public var maxConcurrentProducers: Int?
    /// The condition under which a store returns.
    public var writing = Writing.through
    /// A tier behind the directory that machines share, or `nil`.
    public var remote: RemoteTier?
    /// The maximum time by which the update time on disk lags behind uses in memory, for blobs with ttl 0.
    ///
    /// It is clamped between 1 s and a quarter of the default expiration. Its default is CacheLib's `lruRefreshTime`.
    public var touchInterval: Duration = .seconds(60)
    /// A Boolean value that indicates whether the first store excludes the directory from backups.
    ///
    /// The store creates `CACHEDIR.TAG` and, on Apple platforms, sets the system's attribute. In the flat layout, the
    /// tag is created only if names are hashes, because it could be taken for a record.
    public var excludesFromBackups = true

    /// The clock by which remembered failures of producers expire; replaced in tests.
    package var monotonicNow: @Sendable () -> ContinuousClock.Instant = { .now }
    /// The time that tasks wait for a production before a warning is logged; for tests.
    package var productionPatience: Duration = .seconds(10)

    public init() {}
  }

  /// The limits of the blobs in memory.
  public struct Memory: Hashable, Sendable {
    /// The maximum number of bytes of payloads, keys and overhead.
    public var byteLimit = defaultByteLimit
    /// The maximum number of blobs, or `nil` for no limit.
    public var countLimit: Int?
    /// The time after which an unused blob is removed from memory, or `nil` for no limit.
    public var ageLimit: Duration?
    /// The share of `byteLimit` that one blob may take, from 0 to 1; larger blobs are always read from disk.
    public var maximumShare = 0.25
    public var policy = EvictionPolicy.lru
    /// The number of shards, each with its own lock.
    ///
    /// With one, the default, the order of eviction is exact. With more, threads seldom wait for each other, and a blob
    /// that exceeds a shard's part of the limit is not kept.
    public var shards = 1
    /// A Boolean value that indicates whether memory is freed when the system or the control group is short of it.
    ///
    /// The group's limit is also checked after each mebibyte of growth.
    public var respondsToMemoryPressure = true
    /// A Boolean value that indicates whether stored blobs are added to memory, in addition to loaded ones.
    public var keepsStored = true

    public init() {}

    /// The default of `byteLimit`: 64 MiB, or an eighth of the control group's limit if that is less.
    ///
    /// The lowest limit of the process's group and its ancestors counts. The value is determined once per process.
    public static var defaultByteLimit: Int { DefaultLimit.ofProcess }
  }

  /// The condition under which a store returns.
  public enum Writing: Hashable, Sendable {
    /// When the blob is on disk, with the durability of `store.durability`. The default.
    case through
    /// When the blob is staged in memory, where loads find it immediately; a thread writes it later.
    case behind(WriteBehind)
  }

  /// The configuration of `Writing.behind`.
  ///
  /// A staged blob is lost if the process ends before it is written: call `flush` or `close`. A store that adds or
  /// keeps locks is never staged, because a lock has to survive a power failure.
  public struct WriteBehind: Hashable, Sendable {
    /// The maximum number of staged bytes: payloads, keys, and an overhead of 512 bytes for each blob.
    ///
    /// If the limit is reached, a store returns when its blob is on disk.
    public var byteLimit = 16 << 20
    /// The time for which a staged blob waits for a replacement before it is written; zero writes it immediately.
    public var delay: Duration = .zero

    public init() {}
  }
}

extension BlobCache.Memory {
  var cacheConfiguration: MemoryCacheConfiguration {
    var configuration = MemoryCacheConfiguration(
      limits: MemoryCacheLimits(count: countLimit, cost: byteLimit, age: ageLimit, maximumCostShare: maximumShare),
      policy: policy)
    configuration.shards = shards
    configuration.respondsToMemoryPressure = respondsToMemoryPressure
    configuration.costsAreBytes = true
    return configuration
  }
}
