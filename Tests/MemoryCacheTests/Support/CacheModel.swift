import MemoryCache

/// A slow model of an LRU cache: an array in order of recency that implements the documented rules.
struct CacheModel {
  struct Entry: Equatable {
    var key: String
    var value: Int
    var cost: Int
    var lastUse: Int64
    var deadline: Int64?
    var sliding: Int64?
  }

  struct Removal: Equatable, Hashable {
    var key: String
    var value: Int
    var cost: Int
    var cause: RemovalCause
  }

  /// The entries, least recently used first.
  var entries: [Entry] = []
  var removals: [Removal] = []
  var statistics = MemoryCacheStatistics()
  var now: Int64 = 0
  var limits = MemoryCacheLimits()

  private func index(_ key: String) -> Int? { entries.firstIndex { $0.key == key } }

  private func isLive(_ entry: Entry) -> Bool {
    if let deadline = entry.deadline, now >= deadline { return false }
    if let age = limits.age, now - entry.lastUse > nanoseconds(age) { return false }
    return true
  }

  private mutating func leave(_ index: Int, _ cause: RemovalCause) {
    let entry = entries.remove(at: index)
    removals.append(Removal(key: entry.key, value: entry.value, cost: entry.cost, cause: cause))
    switch cause {
    case .explicit: statistics.explicitRemovals += 1
    case .replaced: statistics.replacements += 1
    case .expired: statistics.expirations += 1
    case .evicted: statistics.evictions += 1
    case .cleared: statistics.clearings += 1
    }
  }

  mutating func value(_ key: String) -> Int? {
    guard let index = index(key) else {
      statistics.misses += 1
      return nil
    }
    guard isLive(entries[index]) else {
      statistics.misses += 1
      leave(index, .expired)
      return nil
    }
    statistics.hits += 1
    var entry = entries.remove(at: index)
    entry.lastUse = now
    if let sliding = entry.sliding { entry.deadline = now + sliding }
    entries.append(entry)
    return entry.value
  }

  func peek(_ key: String) -> Int? {
    entries.first { $0.key == key && isLive($0) }?.value
  }

  mutating func set(_ value: Int, _ key: String, _ cost: Int, _ lifetime: EntryLifetime) -> Bool {
    if let index = index(key) {
      leave(index, isLive(entries[index]) || isRefused(cost, lifetime) ? .replaced : .expired)
    }
    if isRefused(cost, lifetime) {
      statistics.rejections += 1
      return false
    }
    statistics.insertions += 1
    let (deadline, sliding) = times(lifetime)
    entries.append(
      Entry(key: key, value: value, cost: max(cost, 0), lastUse: now, deadline: deadline, sliding: sliding))
    evict()
    return true
  }

  private func times(_ lifetime: EntryLifetime) -> (deadline: Int64?, sliding: Int64?) {
    switch lifetime {
    case .unlimited: (nil, nil)
    case .absolute(let duration): (now + nanoseconds(duration), nil)
    case .sliding(let duration): (now + nanoseconds(duration), nanoseconds(duration))
    case .until(let instant): (instant.nanoseconds, nil)
    }
  }

  private func isRefused(_ cost: Int, _ lifetime: EntryLifetime) -> Bool {
    if let deadline = times(lifetime).deadline, deadline <= now { return true }
    if let count = limits.count, count <= 0 { return true }
    guard let limit = limits.cost else { return false }
    return max(cost, 0) > limit || Double(cost) > Double(limit) * limits.maximumCostShare
  }

  mutating func evict() {
    while let count = limits.count, entries.count > max(count, 0) { leave(0, .evicted) }
    while let cost = limits.cost, totalCost > max(cost, 0) { leave(0, .evicted) }
  }

  mutating func trim(toCount count: Int) {
    while entries.count > max(count, 0) { leave(0, .evicted) }
  }

  mutating func trim(toCost cost: Int) {
    while totalCost > max(cost, 0), !entries.isEmpty { leave(0, .evicted) }
  }

  mutating func trim(toAge age: Duration?) -> Int {
    let before = entries.count
    for index in entries.indices.reversed() {
      let isOld = age.map { now - entries[index].lastUse > nanoseconds($0) } ?? false
      if isOld || !isLive(entries[index]) { leave(index, .expired) }
    }
    return before - entries.count
  }

  mutating func remove(_ key: String) -> Int? {
    guard let index = index(key) else { return nil }
    let entry = entries[index]
    leave(index, isLive(entry) ? .explicit : .expired)
    return removals.last?.cause == .explicit ? entry.value : nil
  }

  mutating func removeAll(costing range: ClosedRange<Int>) -> Int {
    let doomed = entries.indices.filter { isLive(entries[$0]) && range.contains(entries[$0].cost) }
    for index in doomed.reversed() { leave(index, .explicit) }
    return doomed.count
  }

  mutating func removeAll() {
    while !entries.isEmpty { leave(0, .cleared) }
  }

  var live: [Entry] { entries.filter(isLive) }
  var totalCost: Int { entries.reduce(0) { $0 + $1.cost } }

  private func nanoseconds(_ duration: Duration) -> Int64 {
    duration.components.seconds * 1_000_000_000 + duration.components.attoseconds / 1_000_000_000
  }
}
