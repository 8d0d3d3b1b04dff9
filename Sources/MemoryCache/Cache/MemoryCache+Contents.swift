internal import Locks

extension MemoryCache {
  /// Entries, those among them that have expired and are not freed yet included. O(1).
  public var count: Int {
    shards.reduce(0) { sum, shard in sum + shard.state.withLock { $0.slots.count } }
  }

  public var isEmpty: Bool { count == 0 }

  /// The sum of the costs of all entries, held at `Int.max`. O(1).
  public var totalCost: Int {
    Int(clamping: shards.reduce(0 as Int128) { sum, shard in sum + shard.state.withLock { $0.totalCost } })
  }

  /// Counts since the cache was made. O(1).
  public var statistics: MemoryCacheStatistics {
    shards.reduce(MemoryCacheStatistics()) { sum, shard in sum + shard.state.withLock { $0.statistics } }
  }

  /// The live entries, in their order of recency; looking does not count as a use.
  ///
  /// With `.lru` and one shard the order is exact. With several shards it is that of the coarse clock. With `.wTinyLFU`
  /// it is the order in which entries are kept: protected, then the window, then the rest, each by recency.
  ///
  /// - Parameters:
  ///   - leastRecentFirst: begins with what is evicted next.
  ///   - most: how many entries at the most.
  /// - Complexity: O(*n*) for *n* entries, or `most` of them, under the lock: each shard is seen at one point in time.
  ///   With shards, O(*n* log *n*) outside the lock besides.
  public func entries(leastRecentFirst: Bool = false, most: Int = .max) -> [Entry] {
    let now = reading()
    var entries: [Entry] = []
    for shard in shards {
      entries += shard.state.withLock { state in
        state.entries(leastRecentFirst: leastRecentFirst, most: max(most, 0), now: now)
      }
    }
    guard shards.count > 1 else { return entries }
    // Sorting keeps the order of entries used at the same time.
    entries.sort { leastRecentFirst ? $0.lastUse < $1.lastUse : $0.lastUse > $1.lastUse }
    return Array(entries.prefix(max(most, 0)))
  }

  /// The keys of `entries(leastRecentFirst:most:)`.
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

/// An entry of a `MemoryCache`, as it was when it was looked at.
public struct MemoryCacheEntry<Key: Hashable & Sendable, Value: Sendable>: Sendable {
  public let key: Key
  public let value: Value
  public let cost: Int
  public let lastUse: CacheInstant
  /// When it is no longer served; nil for never. The cache's age limit is not part of it.
  public let deadline: CacheInstant?
  /// Which of all values set: another value for the same key has another number.
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

/// The work of a `MemoryCache` since it was made. Two of them subtract, to see a span of time.
public struct MemoryCacheStatistics: Hashable, Sendable {
  /// Values found by `value(forKey:)` and the subscript.
  public var hits: Int
  /// Values not found by them, expired ones among them.
  public var misses: Int
  /// Values set and kept, in the place of another or not.
  public var insertions: Int
  /// Values set and not kept: too dear, or over already.
  public var rejections: Int
  /// Entries that left, by cause.
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

  /// Hits of all that was asked for; nil if nothing was.
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
