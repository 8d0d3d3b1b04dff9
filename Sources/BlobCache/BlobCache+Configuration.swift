public import BlobStore
public import MemoryCache

extension BlobCache {
  /// How a cache behaves.
  ///
  /// Caches on one directory in one process share its store, memory and threads, so they must be configured alike. The
  /// first one's clocks, logger and lane width count for all.
  public struct Configuration: Sendable {
    /// How the directory is treated: layout, expiry, size limit, durability, clock, logger.
    public var store = BlobStore.Configuration()
    /// The limits of the memory in front of the disk; nil for no memory.
    public var memory: Memory? = Memory()
    /// The number of blocking calls that run at once, of each kind; at least one.
    ///
    /// So many loads run at once, so many stores, touches and locks, and so many copies of files. Removals get a quarter,
    /// listings half, each at least one; collections and deferred work get two. Each runs on a thread of its own, which
    /// ends when it is not needed.
    public var maxConcurrentOperations = 4
    /// How many producers of `load(_:orStore:)` run at once; nil for no bound, and at least one.
    ///
    /// The others wait, first come, first served. A producer that another producer waits for does not count, so that
    /// producers may ask for other keys.
    public var maxConcurrentProducers: Int?
    /// When a store returns.
    public var writing = Writing.through
    /// A tier that other machines share, behind the directory; nil for none.
    public var remote: RemoteTier?
    /// How far a blob's update time on disk may lag behind its uses in memory.
    ///
    /// This is for blobs with the default expiration: their update time on disk is moved at most so often. It is held
    /// between a second and a quarter of the default expiration. The default is CacheLib's `lruRefreshTime`.
    public var touchInterval: Duration = .seconds(60)
    /// Whether the first store excludes the directory from backups.
    ///
    /// It leaves `CACHEDIR.TAG` there and, on Apple's platforms, sets the system's mark. In the flat layout the tag
    /// could be taken for a record. It is left out there, unless names are hashes.
    public var excludesFromBackups = true

    /// The clock by which failures of producers are forgotten; for tests.
    package var monotonicNow: @Sendable () -> ContinuousClock.Instant = { .now }
    /// How long others wait for a production before a warning tells of it; for tests.
    package var productionPatience: Duration = .seconds(10)

    public init() {}
  }

  /// How much of the cache is kept in memory, and for how long.
  public struct Memory: Hashable, Sendable {
    /// Bytes of payloads, keys and what it takes to find them.
    public var byteLimit = defaultByteLimit
    /// Blobs at the most; nil for no limit but the bytes.
    public var countLimit: Int?
    /// How long an unused blob stays in memory; nil for as long as there is room.
    public var ageLimit: Duration?
    /// The share of `byteLimit` that one blob may take, from 0 to 1. Larger ones are always read from disk.
    public var maximumShare = 0.25
    public var policy = EvictionPolicy.lru
    /// The number of parts of memory, each with a lock of its own.
    ///
    /// With one, the default, the order of eviction is exact. With more, threads seldom wait for each other, and a blob
    /// larger than a part's share is not kept.
    public var shards = 1
    /// Whether memory is given back when the system or the process's control group runs short.
    ///
    /// Fast growth does not wait for the system's sign: after each mebibyte the group's limit is looked at.
    public var respondsToMemoryPressure = true
    /// Whether a store puts the blob into memory too, or only a load does.
    public var keepsStored = true

    public init() {}

    /// 64 MiB, or an eighth of the control group's limit if that is less.
    ///
    /// Groups are a container's own and those above it. It is looked up once in a process.
    public static var defaultByteLimit: Int { DefaultLimit.ofProcess }
  }

  /// When a store returns.
  public enum Writing: Hashable, Sendable {
    /// When the blob is on disk, as durably as `store.durability` says. The default.
    case through
    /// When the blob is staged in memory; a thread writes it later. Loads see it at once.
    case behind(WriteBehind)
  }

  /// What is staged in memory, for `Writing.behind`.
  ///
  /// A staged blob is lost if the process ends before it is written: call `flush` or `close`. A store that locks, or
  /// keeps locks, is never staged: its promise is about power cuts.
  public struct WriteBehind: Hashable, Sendable {
    /// The most bytes that may be staged: payloads, keys, and 512 for each blob.
    ///
    /// The 512 are the memory that one blob takes besides. Where there is no room, a store returns when its blob is on
    /// disk.
    public var byteLimit = 16 << 20
    /// How long a blob waits for another of its key to replace it.
    ///
    /// With zero it is written as soon as a thread is free.
    public var delay: Duration = .zero

    public init() {}
  }
}

extension BlobCache.Memory {
  /// The settings of the values in memory, without what the directory adds.
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
