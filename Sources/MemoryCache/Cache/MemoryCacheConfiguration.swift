public import Dispatch
package import Posix
package import SystemPackage

/// The configuration of a `MemoryCache`, of which only the limits can be changed later.
public struct MemoryCacheConfiguration: Sendable {
  /// A name that identifies the cache to its owner.
  public var name = ""
  public var limits: MemoryCacheLimits
  /// The lifetime of entries that are set without one.
  public var lifetime = EntryLifetime.unlimited
  public var policy: EvictionPolicy
  /// The number of shards, each with its own lock, selected by the hash of the key.
  ///
  /// It is rounded up to a power of two, at most 256. A count limit reduces it to one for each 32 entries.
  ///
  /// With one shard, the default, the order of eviction is exact. With several, threads seldom wait for each other,
  /// but each shard evicts independently within its share of the limits, and does not keep entries that exceed it.
  public var shards = 1
  /// The interval at which expired and long unused entries are freed, or `nil` for never.
  ///
  /// They are never returned in any case. The timer runs from the first entry that can expire to the end of the cache.
  public var trimInterval: Duration? = .seconds(5)
  /// A Boolean value that indicates whether the cache responds to `MemoryPressureMonitor.shared`.
  public var respondsToMemoryPressure = true
  /// A handler for sources of memory pressure that cannot be watched, each reported once per process, by one cache.
  public var onPressureFailure: (@Sendable (MemoryPressureSource) -> Void)?
  /// A Boolean value that indicates whether costs are bytes of memory.
  ///
  /// A cache that responds to memory pressure then also checks its control group's limit after each mebibyte, or 64th
  /// of its contents, that it grows. Otherwise a cache that is filled quickly could exceed the limit within a second.
  public var costsAreBytes = false
  /// The share of entries and cost that is kept under `.warning`; with 1, only expired entries are removed.
  public var warningKeptShare = 0.5
  public var criticalKeptShare = 0.0
  /// The queue on which removed values are released, or `nil` for the removing thread, outside the lock.
  ///
  /// Use a queue if a release takes long, or must happen on the main thread.
  public var releaseQueue: DispatchQueue?
  /// The clock for ages and lifetimes, or `nil` for `CacheInstant.now`.
  ///
  /// It is called outside the lock, once for each operation. A clock that goes backward extends the life of entries.
  public var now: (@Sendable () -> CacheInstant)?

  package var pressureMonitor = MemoryPressureMonitor.shared

  public init(limits: MemoryCacheLimits = MemoryCacheLimits(), policy: EvictionPolicy = .lru) {
    self.limits = limits
    self.policy = policy
  }

  /// Returns the minimum growth of a shard between two checks of the control group, or `nil` for no checks.
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

/// The limits of a `MemoryCache`; negative values count as zero, and a count limit of zero disables the cache.
public struct MemoryCacheLimits: Hashable, Sendable {
  /// The maximum number of entries, or `nil` for the technical limit of 2^31.
  public var count: Int?
  /// The maximum total cost, or `nil` for no limit.
  public var cost: Int?
  /// The maximum time that an entry may be unused, or `nil` for no limit.
  ///
  /// It is checked on each lookup, so a stale entry is never returned. The automatic trim frees stale entries.
  public var age: Duration?
  /// The share of the cost limit that one entry may have, from 0 to 1; an entry with a higher cost is not kept.
  public var maximumCostShare: Double

  public init(count: Int? = nil, cost: Int? = nil, age: Duration? = nil, maximumCostShare: Double = 1) {
    self.count = count
    self.cost = cost
    self.age = age
    self.maximumCostShare = maximumCostShare
  }
}

@usableFromInline
struct ShardLimits: Sendable {
  /// A slot number has 32 bits, and the index has at least as many places again.
  @usableFromInline static let mostEntries = 1 << 31

  @usableFromInline let count: Int
  @usableFromInline let cost: Int
  @usableFromInline let entryCost: Int
  /// The age limit in nanoseconds, or `Int64.max` for none.
  @usableFromInline let age: Int64

  /// Creates the share of the shard `index`; the shares add up to the limits.
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
    if !(share < 1) { return limit }  // also for NaN
    return share > 0 ? min(Int(exactly: (Double(limit) * share).rounded(.down)) ?? limit, limit) : 0
  }
}

package enum DefaultLimit {
  package static let mostBytes = 64 << 20
  package static let groupFraction = 8

  /// The default of this process, determined once, because configurations with it are compared.
  package static let ofProcess = byteCount(root: "/", files: Files())

  /// Returns 64 MiB, or an eighth of the control groups' tightest limit if that is less.
  package static func byteCount(root: FilePath, files: Files) -> Int {
    // A control group that cannot be read cannot be watched either, and the watch reports the error.
    guard let limit = try? ControlGroup(root: root, files: files)?.tightestLimit() else { return mostBytes }
    return min(mostBytes, Int(clamping: limit) / groupFraction)
  }
}
