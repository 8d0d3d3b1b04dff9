public import Dispatch
package import Posix
package import SystemPackage

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

/// How much a `MemoryCache` holds, and for how long. A value under zero counts as zero; a cache with a limit of zero
/// entries holds none.
public struct MemoryCacheLimits: Hashable, Sendable {
  /// Entries at the most; nil for no limit but 2^31.
  public var count: Int?
  /// The sum of the entries' costs at the most; nil for no limit.
  public var cost: Int?
  /// How long an unused entry stays; nil for no limit. Checked when an entry is asked for, so a stale entry is never
  /// served, and freed by the automatic trim.
  public var age: Duration?
  /// The share of the cost limit that one entry may take, from 0 to 1. A dearer one is not kept.
  public var maximumCostShare: Double

  public init(count: Int? = nil, cost: Int? = nil, age: Duration? = nil, maximumCostShare: Double = 1) {
    self.count = count
    self.cost = cost
    self.age = age
    self.maximumCostShare = maximumCostShare
  }
}

/// The limits of one shard, in the form in which they are checked.
@usableFromInline
struct ShardLimits: Sendable {
  /// A slot's number has 32 bits, and its index at least as many places again.
  @usableFromInline static let mostEntries = 1 << 31

  @usableFromInline let count: Int
  /// `Int.max` for none.
  @usableFromInline let cost: Int
  @usableFromInline let entryCost: Int
  /// Nanoseconds; `Int64.max` for none.
  @usableFromInline let age: Int64

  /// The share of the shard `index`. The shares add up to the limits.
  init(_ limits: MemoryCacheLimits, shard index: Int, of shardCount: Int) {
    func share(_ limit: Int) -> Int {
      max(limit, 0) / shardCount + (index < max(limit, 0) % shardCount ? 1 : 0)
    }
    count = min(limits.count.map(share) ?? Self.mostEntries, Self.mostEntries)
    cost = limits.cost.map(share) ?? .max
    entryCost = limits.cost.map { min(Self.part(limits.maximumCostShare, of: max($0, 0)), share($0)) } ?? .max
    age = limits.age.map { max($0.saturatedNanoseconds, 0) } ?? .max
  }

  private static func part(_ share: Double, of limit: Int) -> Int {
    if !(share < 1) { return limit }  // also what is no number
    return share > 0 ? min(Int(exactly: (Double(limit) * share).rounded(.down)) ?? limit, limit) : 0
  }
}

/// How many bytes a cache in memory takes that was not told how many.
package enum DefaultLimit {
  package static let mostBytes = 64 << 20
  /// A cache may have one part in so many of a control group's limit.
  package static let groupFraction = 8

  /// That of this process, found out once: it is part of configurations, which are compared.
  package static let ofProcess = byteCount(root: "/", files: Files())

  /// 64 MiB, or less where an eighth of the control groups' tightest limit is less.
  package static func byteCount(root: FilePath, files: Files) -> Int {
    // A group that cannot be read here cannot be watched either, and the watch says so.
    guard let limit = try? ControlGroup(root: root, files: files)?.tightestLimit() else { return mostBytes }
    return min(mostBytes, Int(clamping: limit) / groupFraction)
  }
}
