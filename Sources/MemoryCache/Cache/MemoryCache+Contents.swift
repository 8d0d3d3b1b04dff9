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
