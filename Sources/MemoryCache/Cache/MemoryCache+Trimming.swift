internal import Dispatch
internal import Locks
internal import Synchronization

extension MemoryCache {
  /// Removes all entries and frees their memory.
  ///
  /// - Complexity: O(*n*), of which only O(1) is under the lock.
  public func removeAll() {
    clear(.cleared)
  }

  /// Removes the entries that match the predicate, and reports them as `.explicit`.
  ///
  /// The predicate runs outside the lock. Entries that are set concurrently may be missed, and an entry that is
  /// replaced after the predicate has read it is not removed.
  ///
  /// - Returns: The number of removed entries.
  /// - Complexity: O(*n*), under the lock for 256 entries at a time.
  @discardableResult
  public func removeAll(where isIncluded: (Entry) throws -> Bool) rethrows -> Int {
    var count = 0
    for shard in shards {
      var walk = SlotWalk()
      while let chunk = shard.entries(&walk, now: reading()) {
        let removed: Removals<Key, Value>
        do {
          removed = try shard.remove(chunk.entries, where: isIncluded)
        } catch {
          leave(chunk)
          throw error
        }
        // Another thread may have removed them in the meantime, so these may be the last references.
        leave(chunk)
        count += removed.count
        deliver(removed)
      }
    }
    return count
  }

  /// Removes entries that have expired, or were unused for longer than the age limit.
  ///
  /// - Returns: The number of removed entries.
  /// - Complexity: O(*n*), under the lock for 256 entries at a time; O(1) if no entry can expire.
  @discardableResult
  public func removeExpired() -> Int {
    removeExpired(notUsedFor: .max)
  }

  /// Removes entries that have expired or were unused for longer than `age`, and reports them as `.expired`.
  ///
  /// - Complexity: O(*n*), under the lock for 256 entries at a time.
  @discardableResult
  public func trim(toAge age: Duration) -> Int {
    removeExpired(notUsedFor: max(age.saturatedNanoseconds, -1))
  }

  /// Evicts entries until at most `count` are left, divided evenly among the shards.
  ///
  /// - Complexity: O(1) for each evicted entry, under the lock for 256 at a time.
  public func trim(toCount count: Int) {
    guard self.count > count else { return }
    trim(to: MemoryCacheLimits(count: count))
  }

  /// Evicts entries until their total cost is at most `cost`, divided evenly among the shards.
  ///
  /// - Complexity: O(1) for each evicted entry, under the lock for 256 at a time.
  public func trim(toCost cost: Int) {
    guard totalCost > cost else { return }
    trim(to: MemoryCacheLimits(cost: cost))
  }

  /// Removes expired entries and enforces the limits, like the automatic trim.
  public func trim() {
    removeExpired()
    trim(to: limits)
  }

  /// The limits, which can be changed; a change evicts entries over the new limits immediately.
  ///
  /// `maximumCostShare` is checked only when an entry is set, so existing entries stay. The number of shards does not
  /// change. The lock is held for 256 evictions at a time, which may happen on a thread that concurrently sets a value.
  public var limits: MemoryCacheLimits {
    get { currentLimits.withLock { $0 } }
    set {
      currentLimits.withLock { current in
        current = newValue
        for (index, shard) in shards.enumerated() {
          let limits = ShardLimits(newValue, shard: index, of: shards.count)
          shard.state.withLock { $0.limits = limits }
        }
      }
      if newValue.age != nil { startTimer() }
      trim()
    }
  }
}

// MARK: - Memory pressure

extension MemoryCache {
  /// Frees memory: removes expired entries, then evicts down to the configured shares for this level.
  ///
  /// `MemoryPressureMonitor.shared` calls this method unless the configuration disables it. A program with better
  /// information may call it too.
  ///
  /// - Complexity: O(*n*), under the lock for 256 entries at a time. Moving the remaining entries holds the lock
  ///   once, for as long as growing to their number did.
  public func respond(to pressure: MemoryPressure) {
    let share = pressure == .critical ? configuration.criticalKeptShare : configuration.warningKeptShare
    guard share > 0 else { return clear(.evicted) }
    removeExpired()
    guard share < 1 else { return shards.forEach { shard in shard.state.withLock { $0.compact() } } }
    for shard in shards {
      let (count, cost) = shard.state.withLock { state in (state.slots.count, state.totalCost) }
      trim(shard, toCount: Int(Double(count) * share), cost: Int(clamping: Int128(Double(cost) * share)))
    }
  }
}

// MARK: - Parts

extension MemoryCache {
  private func trim(to limits: MemoryCacheLimits) {
    for (index, shard) in shards.enumerated() {
      let share = ShardLimits(limits, shard: index, of: shards.count)
      trim(shard, toCount: share.count, cost: share.cost)
    }
  }

  private func trim(_ shard: CacheShard<Key, Value>, toCount count: Int, cost: Int) {
    while true {
      var removed = Removals<Key, Value>()
      let isDone = shard.state.withLock { state in
        state.trim(toCount: count, cost: cost, removed: &removed)
      }
      deliver(removed)
      if isDone { break }
    }
    shard.state.withLock { $0.compact() }
  }

  private func removeExpired(notUsedFor age: Int64) -> Int {
    var count = 0
    for shard in shards {
      let canExpire = shard.state.withLock { state in
        state.slots.hasLifetimes || state.limits.age != .max || age != .max
      }
      var walk = SlotWalk()
      var isAtEnd = !canExpire
      while !isAtEnd {
        let now = reading()
        var removed = Removals<Key, Value>()
        shard.state.withLock { state in
          guard let range = walk.advance(in: state) else { return isAtEnd = true }
          state.removeExpired(in: range, now: now, age: age, removed: &removed)
        }
        count += removed.count
        deliver(removed)
      }
    }
    return count
  }

  private func clear(_ cause: RemovalCause) {
    for shard in shards {
      let taken = shard.state.withLock { state in state.takeAll(cause) }
      if let onRemoval { taken.forEachRemoval(cause, onRemoval) }
      if let releaseQueue { ReleaseParcel.send(taken, to: releaseQueue) }
    }
  }

  private func leave(_ glance: consuming ShardGlance<Key, Value>) {
    if let releaseQueue { ReleaseParcel.send(glance, to: releaseQueue) }
  }
}

/// An iteration over a shard's slots that holds the lock for one chunk at a time.
private struct SlotWalk {
  private var next = 0
  private var compactions = 0

  mutating func advance<Key, Value>(in state: borrowing ShardState<Key, Value>) -> Range<Int>? {
    // A compaction moves entries, so the iteration has to start again.
    if state.compactions != compactions { next = 0 }
    compactions = state.compactions
    let first = max(next, SlotStorage<Key, Value>.firstSlot)
    guard first < state.slots.highWater else { return nil }
    next = min(first + ShardState<Key, Value>.chunkSize, state.slots.highWater)
    return first..<next
  }
}

private struct ShardGlance<Key: Hashable & Sendable, Value: Sendable>: ~Copyable, Sendable {
  let entries: [MemoryCacheEntry<Key, Value>]
}

extension SlotStorage {
  fileprivate func forEachRemoval(_ cause: RemovalCause, _ body: (RemovedEntry<Key, Value>) -> Void) {
    for slot in Self.firstSlot..<highWater where segment(of: Slot(truncatingIfNeeded: slot)) != .none {
      let content = unsafe contents[slot]
      body(RemovedEntry(key: content.key, value: content.value, cost: content.cost, cause: cause))
    }
  }
}

extension CacheShard {
  fileprivate func entries(_ walk: inout SlotWalk, now: Int64) -> ShardGlance<Key, Value>? {
    var next = walk
    defer { walk = next }
    return state.withLock { state in
      guard let range = next.advance(in: state) else { return nil }
      let slots = range.map { Slot(truncatingIfNeeded: $0) }
      let entries = slots.filter { state.slots.segment(of: $0) != .none && state.isLive($0, now) }
      return ShardGlance(entries: entries.map { state.entry($0) })
    }
  }

  /// Removes the entries that match the predicate and were not replaced in the meantime.
  fileprivate func remove(
    _ entries: [MemoryCacheEntry<Key, Value>], where isIncluded: (MemoryCacheEntry<Key, Value>) throws -> Bool
  ) rethrows -> Removals<Key, Value> {
    let entries = try entries.filter(isIncluded)
    guard !entries.isEmpty else { return Removals() }
    let hashes = entries.map { UInt32(truncatingIfNeeded: MemoryCache<Key, Value>.hash($0.key)) }
    return state.withLock { state in
      var removed = Removals<Key, Value>()
      for (entry, hash) in zip(entries, hashes) {
        guard let slot = state.slots.find(entry.key, hash),
          unsafe state.slots.contents[Int(slot)].serial == entry.serial
        else { continue }
        removed.append(state.remove(slot, .explicit))
      }
      return removed
    }
  }
}

/// A timer for the automatic trim on a dispatch queue; it uses no thread while idle, and needs no run loop.
final class TrimTimer: Sendable {
  private let interval: Duration?
  private let source = Lock<(any DispatchSourceTimer)?>(nil)
  private let isStarted = Atomic(false)

  /// - Parameter interval: The interval, at least a millisecond, or `nil` for a timer that never fires.
  init(interval: Duration?) {
    self.interval = interval
  }

  deinit {
    source.withLock { $0?.cancel() }
  }

  func start(_ body: @escaping @Sendable () -> Void) {
    guard let interval, !isStarted.load(ordering: .relaxed), !isStarted.exchange(true, ordering: .relaxed) else {
      return
    }
    // At most a year, because Dispatch counts nanoseconds in 64 bits.
    let bounded = min(max(interval, .milliseconds(1)), .seconds(31_536_000))
    let period = DispatchTimeInterval.nanoseconds(Int(bounded.saturatedNanoseconds))
    source.withLock { source in
      let timer = DispatchSource.makeTimerSource(queue: DispatchQueue.global(qos: .utility))
      timer.schedule(
        deadline: .now() + period, repeating: period, leeway: .nanoseconds(Int(bounded.saturatedNanoseconds / 10)))
      timer.setEventHandler(handler: body)
      timer.activate()
      source = timer
    }
  }
}
