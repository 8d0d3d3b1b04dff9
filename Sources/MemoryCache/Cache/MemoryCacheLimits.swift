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
