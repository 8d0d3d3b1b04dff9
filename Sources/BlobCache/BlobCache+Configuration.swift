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
    /// What is kept in memory; nil for nothing.
    public var memory: Memory? = Memory()
    /// How many calls that block are made at once, of each kind: as many loads, and as many stores, touches and locks; a
    /// quarter as many removals, half as many listings, at least one of each; and two for collections and what is put off. Each is on
    /// a thread of its own, which ends when it is not needed. At least one.
    public var maxConcurrentOperations = 4
    /// When a store returns.
    public var writing = Writing.through
    /// How much a blob with the default expiration, answered from memory, may be older on disk than in memory: its update
    /// time there is moved on at most so often. Held between a second and a quarter of the default expiration.
    ///
    /// The default is CacheLib's `lruRefreshTime`.
    public var touchInterval: Duration = .seconds(60)
    /// Whether the first store leaves `CACHEDIR.TAG` in the directory and, on Apple's platforms, excludes it from
    /// backups. In the flat layout, where the tag could not be told from a record, only the latter, unless names are
    /// hashes.
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
    /// How long a blob stays in memory that is not asked for; nil for as long as there is room.
    public var ageLimit: Duration?
    /// The share of `byteLimit` that one blob may take, from 0 to 1. Larger ones are always read from disk.
    public var maximumShare = 0.25
    public var policy = EvictionPolicy.lru
    /// Into how many parts, each with its own lock, memory is divided. With one, the default, the order of eviction is
    /// exact; with more, threads seldom wait for each other, and a blob larger than a part's share is not kept.
    public var shards = 1
    /// Whether memory is given back when the system, or the process's control group, runs short of it. Blobs that come in
    /// fast do not wait for the system's word: after each mebibyte by which they grow the group's limit is looked at.
    public var respondsToMemoryPressure = true
    /// Whether a store puts the blob into memory too, or only a load does.
    public var keepsStored = true

    public init() {}

    /// 64 MiB, or an eighth of the limit of the process's control group if that is less: a container's own, and those of
    /// the groups above it. It is looked up once in a process.
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
  /// What is staged is lost if the process ends before it is written: call `flush` or `close`. A store that locks, or
  /// keeps locks, is never staged: its promise is about power cuts.
  public struct WriteBehind: Hashable, Sendable {
    /// Bytes that are staged at the most: payloads, keys, and 512 for each blob, which is what it takes to keep one. A store for
    /// which there is no room returns when its blob is on disk.
    public var byteLimit = 16 << 20
    /// How long a blob is held back for another of the same key to take its place; zero writes as soon as a thread is
    /// free.
    public var delay: Duration = .zero

    public init() {}
  }
}
