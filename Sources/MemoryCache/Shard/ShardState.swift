public import Locks

/// The state of a shard under its lock: entries, their order, totals and counters.
///
/// All decisions are made here. Removed entries are returned, to be reported and released outside the lock.
@usableFromInline
struct ShardState<Key: Hashable & Sendable, Value: Sendable>: ~Copyable {
  @usableFromInline typealias Removed = Removals<Key, Value>

  @usableFromInline var slots = SlotStorage<Key, Value>()
  @usableFromInline var limits: ShardLimits
  @usableFromInline let policy: EvictionPolicy
  /// Wider than a cost, so that the sum of costs cannot overflow.
  @usableFromInline var totalCost: Int128 = 0
  @usableFromInline var statistics = MemoryCacheStatistics()
  @usableFromInline var lastSerial: UInt64 = 0
  /// The number of compactions; after a compaction, an iteration over the slots starts again.
  @usableFromInline var compactions = 0
  /// The minimum growth of the cost between two checks of the available memory; `Int.max` disables the checks.
  @usableFromInline let growthStep: Int
  /// The cost at the last check, or the minimum since then.
  @usableFromInline var lookedAtCost: Int128 = 0
  // For W-TinyLFU only.
  @usableFromInline var windowCount = 0
  @usableFromInline var windowCost: Int128 = 0
  @usableFromInline var protectedCount = 0
  @usableFromInline var protectedCost: Int128 = 0
  @usableFromInline var sketch = FrequencySketch()

  @inlinable
  init(limits: ShardLimits, policy: EvictionPolicy, growthStep: Int) {
    self.limits = limits
    self.policy = policy
    self.growthStep = growthStep
  }
}

// MARK: - Asking

extension ShardState {
  @inlinable
  @inline(__always)
  mutating func value(forKey key: Key, _ hash: UInt32, now: Int64, removed: inout RemovedEntry<Key, Value>?) -> Value? {
    guard let slot = slots.find(key, hash) else {
      statistics.misses += 1
      return nil
    }
    guard isLive(slot, now) else {
      statistics.misses += 1
      removed = remove(slot, .expired)
      return nil
    }
    statistics.hits += 1
    use(slot, now)
    return unsafe slots.contents[Int(slot)].value
  }

  @inlinable
  func peek(_ key: Key, _ hash: UInt32, now: Int64) -> Slot? {
    guard let slot = slots.find(key, hash), isLive(slot, now) else { return nil }
    return slot
  }

  @inlinable
  @inline(__always)
  func isLive(_ slot: Slot, _ now: Int64) -> Bool {
    let content = unsafe slots.contents + Int(slot)
    return unsafe now < slots.deadline(of: slot) && now &- content.pointee.lastUse <= limits.age
  }

  @inlinable
  func entry(_ slot: Slot) -> MemoryCacheEntry<Key, Value> {
    let content = unsafe slots.contents[Int(slot)]
    let deadline = slots.deadline(of: slot)
    return MemoryCacheEntry(
      key: content.key, value: content.value, cost: content.cost, lastUse: CacheInstant(nanoseconds: content.lastUse),
      deadline: deadline == .max ? nil : CacheInstant(nanoseconds: deadline), serial: content.serial)
  }

  @inlinable
  @inline(__always)
  mutating func use(_ slot: Slot, _ now: Int64) {
    unsafe slots.contents[Int(slot)].lastUse = now
    slots.slideDeadline(of: slot, from: now)
    if policy == .lru {
      slots.unlink(slot)
      slots.linkFirst(slot, in: .window)
    } else {
      noteUse(slot)
    }
  }
}

// MARK: - Setting

extension ShardState {
  /// Sets the value of a key, unless its cost is too high, its lifetime is over or the count limit is zero.
  @inlinable
  mutating func set(
    _ value: consuming Value, forKey key: Key, _ hash: UInt32, cost: Int, lifetime: SlotLifetime, now: Int64,
    removed: inout Removed
  ) -> SetOutcome {
    let existing = slots.find(key, hash)
    let costBefore = totalCost
    guard lifetime.deadline > now, cost <= limits.entryCost, limits.count > 0 else {
      if let existing { removed.append(remove(existing, .replaced)) }
      statistics.rejections += 1
      return .rejected
    }
    statistics.insertions += 1
    lastSerial += 1
    let slot: Slot
    if let existing {
      slot = existing
      removed.append(replace(slot, by: value, cost: cost, wasLive: isLive(slot, now)))
      slots.setLifetime(lifetime, of: slot)
      use(slot, now)
    } else {
      slot = slots.add(SlotContent(key: key, value: value, cost: cost, lastUse: now, serial: lastSerial), hash)
      slots.setLifetime(lifetime, of: slot)
      slots.linkFirst(slot, in: .window)
      totalCost += Int128(cost)
      if policy != .lru { noteInsertion(hash, cost: cost) }
    }
    let candidates = policy == .lru ? Candidates() : narrowWindow()
    let isWithinLimits = !isOverLimit || evict(sparing: slot, candidates, removed: &removed)
    return SetOutcome(
      isKept: true, hasGrown: growthStep != .max && hasGrown(since: costBefore), isWithinLimits: isWithinLimits,
      entry: SparedEntry(slot: slot, serial: lastSerial))
  }

  @inlinable
  mutating func hasGrown(since costBefore: Int128) -> Bool {
    lookedAtCost = min(lookedAtCost, costBefore)
    guard totalCost - lookedAtCost >= max(Int128(growthStep), lookedAtCost / 64) else { return false }
    lookedAtCost = totalCost
    return true
  }

  @inlinable
  mutating func replace(
    _ slot: Slot, by value: consuming Value, cost: Int, wasLive: Bool
  ) -> RemovedEntry<Key, Value> {
    let content = unsafe slots.contents + Int(slot)
    let cause: RemovalCause = wasLive ? .replaced : .expired
    let old = unsafe RemovedEntry(
      key: content.pointee.key, value: content.pointee.value, cost: content.pointee.cost, cause: cause)
    statistics.countRemoval(cause)
    let change = Int128(cost) - Int128(old.cost)
    totalCost += change
    if policy != .lru { noteChange(of: slot, by: change) }
    unsafe content.pointee.value = value
    unsafe content.pointee.cost = cost
    unsafe content.pointee.serial = lastSerial
    return old
  }
}

// MARK: - Removing

extension ShardState {
  @inlinable
  mutating func remove(_ slot: Slot, _ cause: RemovalCause) -> RemovedEntry<Key, Value> {
    if policy != .lru { noteRemoval(slot) }
    let content = slots.take(slot)
    totalCost -= Int128(content.cost)
    statistics.countRemoval(cause)
    return RemovedEntry(key: content.key, value: content.value, cost: content.cost, cause: cause)
  }

  @inlinable
  var isOverLimit: Bool { slots.count > limits.count || isDearerThan(limits.cost) }

  @inlinable
  func isDearerThan(_ cost: Int) -> Bool { cost != .max && totalCost > Int128(cost) }

  /// The number of entries that are removed or read under one lock, so that other threads can proceed in between.
  @usableFromInline static var chunkSize: Int { 256 }

  /// Evicts at most one chunk, and returns whether the limits hold.
  @inlinable
  @inline(never)
  mutating func evict(sparing spared: Slot, _ candidates: Candidates, removed: inout Removed) -> Bool {
    var candidates = candidates
    for _ in 0..<Self.chunkSize {
      guard isOverLimit, let slot = loser(sparing: spared, &candidates) else { return true }
      removed.append(remove(slot, .evicted))
    }
    return !isOverLimit
  }

  /// Continues an eviction after the lock was released, so the spared entry may no longer exist.
  @usableFromInline
  mutating func evict(sparing entry: SparedEntry, removed: inout Removed) -> Bool {
    let isThere =
      entry.slot < slots.highWater && slots.segment(of: entry.slot) != .none
      && (unsafe slots.contents[Int(entry.slot)].serial) == entry.serial
    return evict(sparing: isThere ? entry.slot : 0, Candidates(), removed: &removed)
  }

  /// Evicts at most one chunk down to this count and cost, and returns whether the goal is reached.
  @inlinable
  mutating func trim(toCount count: Int, cost: Int, removed: inout Removed) -> Bool {
    for _ in 0..<Self.chunkSize {
      guard slots.count > count || isDearerThan(cost), let slot = victim(sparing: 0) else { return true }
      removed.append(remove(slot, .evicted))
    }
    return false
  }

  /// Removes entries in a range of slots that expired or were unused for longer than `age`.
  @inlinable
  mutating func removeExpired(in range: Range<Int>, now: Int64, age: Int64, removed: inout Removed) {
    for slot in range.clamped(to: SlotStorage<Key, Value>.firstSlot..<slots.highWater) {
      guard slots.segment(of: Slot(truncatingIfNeeded: slot)) != .none else { continue }
      let lastUse = unsafe slots.contents[slot].lastUse
      guard now &- lastUse > age || !isLive(Slot(truncatingIfNeeded: slot), now) else { continue }
      removed.append(remove(Slot(truncatingIfNeeded: slot), .expired))
    }
  }

  /// Removes all entries in O(1) by replacing the storage.
  @inlinable
  mutating func takeAll(_ cause: RemovalCause) -> SlotStorage<Key, Value> {
    var taken = SlotStorage<Key, Value>()
    swap(&taken, &slots)
    statistics.countRemoval(cause, taken.count)
    totalCost = 0
    windowCount = 0
    windowCost = 0
    protectedCount = 0
    protectedCost = 0
    sketch = FrequencySketch()
    return taken
  }

  /// Frees the memory of unused slots if there are many; O(*n*), like growing.
  mutating func compact() {
    guard slots.compact() else { return }
    compactions += 1
    if policy != .lru { sketch.shrink(to: slots.count) }
  }
}

@usableFromInline
final class CacheShard<Key: Hashable & Sendable, Value: Sendable>: Sendable {
  @usableFromInline let state: Lock<ShardState<Key, Value>>

  @inlinable
  init(limits: ShardLimits, policy: EvictionPolicy, growthStep: Int) {
    state = Lock(ShardState(limits: limits, policy: policy, growthStep: growthStep))
  }
}

/// The policy by which a `MemoryCache` over a limit selects entries to evict.
public enum EvictionPolicy: String, CaseIterable, Sendable {
  /// The least recently used entry, in exact order.
  case lru
  /// W-TinyLFU: a scan over keys that are used once does not evict frequent ones.
  ///
  /// New entries are added to a window: 5 % of the cost if the cost limit is closer, otherwise 1 % of the entries. An
  /// entry that leaves the window stays only if it was recently used more often than each entry that it would
  /// displace. A sketch of 4-bit counters, which are halved periodically, estimates the frequency. The other entries
  /// form a segmented LRU, 80 % of which is protected for entries that were used after they left the window. The
  /// sketch takes 8 to 16 bytes for each entry.
  ///
  /// Source: G. Einziger, R. Friedman, B. Manes, "TinyLFU: A Highly Efficient Cache Admission Policy", ACM
  /// Transactions on Storage 13(4), 2017.
  ///
  /// The policy was chosen by measurement (Tools/Benchmarks). On generated traces, its hit ratios are equal to or
  /// better than those of S3-FIFO (SOSP 2023) and SIEVE (NSDI 2024). Unlike SIEVE, it keeps part of a loop that does
  /// not fit. If popularity shifts often, `lru` may be better.
  case wTinyLFU
}
