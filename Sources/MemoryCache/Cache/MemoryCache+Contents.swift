internal import Locks

extension MemoryCache {
  /// The number of entries, including expired ones that are not freed yet. O(1).
  public var count: Int {
    shards.reduce(0) { sum, shard in sum + shard.state.withLock { $0.slots.count } }
  }

  public var isEmpty: Bool { count == 0 }

  /// The sum of the costs of all entries, clamped to `Int.max`. O(1).
  public var totalCost: Int {
    Int(clamping: shards.reduce(0 as Int128) { sum, shard in sum + shard.state.withLock { $0.totalCost } })
  }

  /// The statistics since the cache was created. O(1).
  public var statistics: MemoryCacheStatistics {
    shards.reduce(MemoryCacheStatistics()) { sum, shard in sum + shard.state.withLock { $0.statistics } }
  }

  /// Returns the live entries in the order of recency, without counting a use.
  ///
  /// With `.lru`, the order is exact for one shard, and the order of the coarse clock for several. With `.wTinyLFU`,
  /// entries are grouped by segment (protected, window, probation), and each group is ordered by recency.
  ///
  /// - Parameters:
  ///   - leastRecentFirst: A Boolean value that indicates whether to begin with the next entry to evict.
  ///   - most: The maximum number of entries.
  /// - Complexity: O(*n*) for *n* entries, or `most` of them, under the lock: each shard is read at one point in
  ///   time. With several shards, also O(*n* log *n*) outside the lock.
  public func entries(leastRecentFirst: Bool = false, most: Int = .max) -> [Entry] {
    let now = reading()
    var entries: [Entry] = []
    for shard in shards {
      entries += shard.state.withLock { state in
        state.entries(leastRecentFirst: leastRecentFirst, most: max(most, 0), now: now)
      }
    }
    guard shards.count > 1 else { return entries }
    // The stable sort preserves the order of entries used at the same time.
    entries.sort { leastRecentFirst ? $0.lastUse < $1.lastUse : $0.lastUse > $1.lastUse }
    return Array(entries.prefix(max(most, 0)))
  }

  /// Returns the keys of `entries(leastRecentFirst:most:)`.
  public func keys(leastRecentFirst: Bool = false, most: Int = .max) -> [Key] {
    entries(leastRecentFirst: leastRecentFirst, most: most).map(\.key)
  }
}

extension ShardState {
  func entries(leastRecentFirst: Bool, most: Int, now: Int64) -> [MemoryCacheEntry<Key, Value>] {
    var entries: [MemoryCacheEntry<Key, Value>] = []
    let segments: [Segment] = [.protected, .window, .probation]
    for segment in leastRecentFirst ? segments.reversed() : segments {
      slots.forEachSlot(in: segment, leastRecentFirst: leastRecentFirst) { slot in
        guard entries.count < most else { return false }
        if isLive(slot, now) { entries.append(entry(slot)) }
        return true
      }
    }
    return entries
  }
}

/// A copy of an entry of a `MemoryCache`.
public struct MemoryCacheEntry<Key: Hashable & Sendable, Value: Sendable>: Sendable {
  public let key: Key
  public let value: Value
  public let cost: Int
  public let lastUse: CacheInstant
  /// The time of expiry without the cache's age limit, or `nil` for an entry that does not expire.
  public let deadline: CacheInstant?
  /// The serial number of the value: another value for the same key has another number.
  @usableFromInline let serial: UInt64

  @inlinable
  init(key: Key, value: Value, cost: Int, lastUse: CacheInstant, deadline: CacheInstant?, serial: UInt64) {
    self.key = key
    self.value = value
    self.cost = cost
    self.lastUse = lastUse
    self.deadline = deadline
    self.serial = serial
  }
}

/// The statistics of a `MemoryCache` since its creation; the difference of two covers a period.
public struct MemoryCacheStatistics: Hashable, Sendable {
  /// The number of values found by `value(forKey:)` and the subscript.
  public var hits: Int
  /// The number of values not found by them, including expired ones.
  public var misses: Int
  /// The number of values set and kept, including replacements.
  public var insertions: Int
  /// The number of values set but not kept, because the cost was too high or the lifetime was over.
  public var rejections: Int
  /// The numbers of removed entries by cause.
  public var explicitRemovals: Int
  public var replacements: Int
  public var expirations: Int
  public var evictions: Int
  public var clearings: Int

  @inlinable
  public init() {
    hits = 0
    misses = 0
    insertions = 0
    rejections = 0
    explicitRemovals = 0
    replacements = 0
    expirations = 0
    evictions = 0
    clearings = 0
  }

  /// The ratio of hits to lookups, or `nil` without lookups.
  public var hitRatio: Double? {
    let requests = hits + misses
    return requests == 0 ? nil : Double(hits) / Double(requests)
  }

  public static func - (a: Self, b: Self) -> Self { a.combined(b, -) }
  public static func + (a: Self, b: Self) -> Self { a.combined(b, +) }

  private func combined(_ other: Self, _ operation: (Int, Int) -> Int) -> Self {
    var result = self
    result.hits = operation(hits, other.hits)
    result.misses = operation(misses, other.misses)
    result.insertions = operation(insertions, other.insertions)
    result.rejections = operation(rejections, other.rejections)
    result.explicitRemovals = operation(explicitRemovals, other.explicitRemovals)
    result.replacements = operation(replacements, other.replacements)
    result.expirations = operation(expirations, other.expirations)
    result.evictions = operation(evictions, other.evictions)
    result.clearings = operation(clearings, other.clearings)
    return result
  }

  @inlinable
  mutating func countRemoval(_ cause: RemovalCause, _ number: Int = 1) {
    switch cause {
    case .explicit: explicitRemovals += number
    case .replaced: replacements += number
    case .expired: expirations += number
    case .evicted: evictions += number
    case .cleared: clearings += number
    }
  }
}
