public import Dispatch
public import Locks

/// A thread-safe cache in memory with limits for count, cost, age and lifetime.
///
/// Operations wait only for other operations, and each operation on a key takes amortised constant time.
///
/// Removed values are reported and released outside the lock, so a `deinit` and the removal listener may use the
/// cache. A key's `==` runs inside the lock and must not use it.
///
/// ```swift
/// let covers = MemoryCache<String, Cover>(MemoryCacheConfiguration(limits: MemoryCacheLimits(cost: 64 << 20)))
/// covers.setValue(cover, forKey: "42", cost: cover.byteCount, lifetime: .absolute(.seconds(3600)))
/// if let cover = covers.value(forKey: "42") { … }
/// ```
public final class MemoryCache<Key: Hashable & Sendable, Value: Sendable>: Sendable {
  public typealias Entry = MemoryCacheEntry<Key, Value>
  /// A closure that receives each removed entry, outside the lock, on the thread that caused the removal.
  ///
  /// Concurrent removals of one key may be reported in a different order than they happened.
  public typealias RemovalListener = @Sendable (RemovedEntry<Key, Value>) -> Void

  public let configuration: MemoryCacheConfiguration
  @usableFromInline let shards: [CacheShard<Key, Value>]
  /// The first of `shards`, which saves the selection if it is the only one.
  @usableFromInline let firstShard: CacheShard<Key, Value>
  @usableFromInline let shardMask: Int
  @usableFromInline let onRemoval: RemovalListener?
  @usableFromInline let releaseQueue: DispatchQueue?
  @usableFromInline let clock: (@Sendable () -> CacheInstant)?
  /// A Boolean value that indicates whether `clock` is set; cheaper to read than the closure, which is retained.
  @usableFromInline let hasClock: Bool
  let currentLimits: Lock<MemoryCacheLimits>
  let timer: TrimTimer
  private let pressure = Lock<MemoryPressureSubscription?>(nil)

  /// Creates an empty cache.
  ///
  /// - Parameters:
  ///   - configuration: The limits, the policy and the lifetimes.
  ///   - onRemoval: A closure that receives each removed entry, including replaced values.
  public init(
    _ configuration: MemoryCacheConfiguration = MemoryCacheConfiguration(), onRemoval: RemovalListener? = nil
  ) {
    self.configuration = configuration
    let shardCount = configuration.shardCount
    let shards = (0..<shardCount).map { index in
      CacheShard<Key, Value>(
        limits: ShardLimits(configuration.limits, shard: index, of: shardCount), policy: configuration.policy,
        growthStep: configuration.growthStep(of: shardCount) ?? .max)
    }
    self.shards = shards
    firstShard = shards[0]
    shardMask = shardCount - 1
    self.onRemoval = onRemoval
    releaseQueue = configuration.releaseQueue
    clock = configuration.now
    hasClock = configuration.now != nil
    currentLimits = Lock(configuration.limits)
    timer = TrimTimer(interval: configuration.trimInterval)
    if configuration.limits.age != nil { startTimer() }
    if configuration.respondsToMemoryPressure {
      let subscription = configuration.pressureMonitor.onPressure(
        { [weak self] in self?.respond(to: $0) }, onFailure: configuration.onPressureFailure)
      pressure.withLock { $0 = subscription }
    }
  }
}

// MARK: - Asking

extension MemoryCache {
  /// Returns the value of a key and counts a use, which makes the entry the most recent one.
  ///
  /// A sliding lifetime starts again. An expired entry is removed and reported as `.expired`.
  ///
  /// - Complexity: O(1) expected: one hash, one comparison of keys.
  @inlinable
  public func value(forKey key: Key) -> Value? {
    let hash = Self.hash(key)
    let now = reading()
    var expired: RemovedEntry<Key, Value>?
    let value = withState(hash) { state in
      state.value(forKey: key, UInt32(truncatingIfNeeded: hash), now: now, removed: &expired)
    }
    if expired != nil { deliver(Removals(expired.take())) }
    return value
  }

  /// Returns the value of a key without counting a use or a hit; O(1) expected.
  @inlinable
  public func peek(_ key: Key) -> Value? {
    lookUp(key) { state, slot in unsafe state.slots.contents[Int(slot)].value }
  }

  /// Returns a Boolean value that indicates whether a live value exists, without counting a use. O(1) expected.
  @inlinable
  public func contains(_ key: Key) -> Bool {
    lookUp(key) { _, _ in true } ?? false
  }

  /// Returns the value of a key with its cost and times, without counting a use. O(1) expected.
  @inlinable
  public func entry(forKey key: Key) -> Entry? {
    lookUp(key) { state, slot in state.entry(slot) }
  }

  /// Accesses a value by `value(forKey:)` and `setValue(_:forKey:)` with default arguments; `nil` removes it.
  @inlinable
  public subscript(key: Key) -> Value? {
    get { value(forKey: key) }
    set {
      if let newValue {
        setValue(newValue, forKey: key)
      } else {
        deliver(Removals(removeEntry(forKey: key) { _ in true }))
      }
    }
  }

  @inlinable
  func lookUp<Result: Sendable>(
    _ key: Key, _ body: @Sendable (borrowing ShardState<Key, Value>, Slot) -> Result
  ) -> Result? {
    let hash = Self.hash(key)
    let now = reading()
    return withState(hash) { state in
      guard let slot = state.peek(key, UInt32(truncatingIfNeeded: hash), now: now) else { return nil }
      return body(state, slot)
    }
  }
}

// MARK: - Setting

extension MemoryCache {
  /// Sets the value of a key, and makes it the most recent entry.
  ///
  /// The key's old value is removed in any case. Then other entries are evicted until the limits hold. The new value
  /// may be removed at any time by memory pressure, even if this call detects it (`costsAreBytes`), but not for the
  /// limits.
  ///
  /// - Parameters:
  ///   - value: The value to store.
  ///   - key: The key of the value.
  ///   - cost: The cost in the unit of the cost limit; a negative cost counts as zero.
  ///   - lifetime: The lifetime of the entry, or `nil` for the lifetime of the configuration.
  /// - Returns: `false` if the cost was too high, the lifetime over or the count limit 0, so the value was not kept.
  /// - Complexity: Amortised O(1) expected, and O(1) for each evicted entry, under the lock for 256 at a time.
  @inlinable
  @discardableResult
  public func setValue(_ value: Value, forKey key: Key, cost: Int = 0, lifetime: EntryLifetime? = nil) -> Bool {
    let hash = Self.hash(key)
    let now = reading()
    let lifetime = lifetime ?? configuration.lifetime
    let end = SlotLifetime(deadline: lifetime.deadline(from: now), sliding: lifetime.slidingNanoseconds)
    var removed = Removals<Key, Value>()
    let outcome = withState(hash) { state in
      state.set(
        value, forKey: key, UInt32(truncatingIfNeeded: hash), cost: max(cost, 0), lifetime: end, now: now,
        removed: &removed)
    }
    if end.deadline != .max { startTimer() }
    deliver(removed)
    if !outcome.isWithinLimits { evictRest(hash, sparing: outcome.entry) }
    if outcome.hasGrown { checkMemory() }
    return outcome.isKept
  }
}

// MARK: - Removing

extension MemoryCache {
  /// Removes the value of a key.
  ///
  /// - Returns: The removed value, or `nil` if no live value existed. The caller releases the value even if there is
  ///   a release queue; `cache[key] = nil` returns nothing.
  /// - Complexity: O(1) expected.
  @inlinable
  @discardableResult
  public func removeValue(forKey key: Key) -> Value? {
    delivered(removeEntry(forKey: key) { _ in true })
  }

  /// Removes the value of a key if it matches the predicate, for example because it is stale.
  ///
  /// The predicate runs outside the lock. A value that is replaced after the predicate has read it is not removed.
  ///
  /// - Returns: The removed value.
  @inlinable
  @discardableResult
  public func removeValue(forKey key: Key, where isIncluded: (Value) throws -> Bool) rethrows -> Value? {
    guard let entry = entry(forKey: key), try isIncluded(entry.value) else { return nil }
    return delivered(removeEntry(forKey: key) { $0 == entry.serial })
  }

  @inlinable
  func delivered(_ removed: RemovedEntry<Key, Value>?) -> Value? {
    deliver(Removals(removed))
    return removed?.cause == .explicit ? removed?.value : nil
  }

  @inlinable
  func removeEntry(forKey key: Key, _ isMeant: (UInt64) -> Bool) -> RemovedEntry<Key, Value>? {
    let hash = Self.hash(key)
    let now = reading()
    return withState(hash) { state in
      guard let slot = state.slots.find(key, UInt32(truncatingIfNeeded: hash)),
        unsafe isMeant(state.slots.contents[Int(slot)].serial)
      else { return nil }
      return state.remove(slot, state.isLive(slot, now) ? .explicit : .expired)
    }
  }
}

// MARK: - Parts

extension MemoryCache {
  @inlinable
  @inline(__always)
  static func hash(_ key: Key) -> Int { key.hashValue }

  /// Calls `body` with the state of the shard for a hash, whose upper half selects the shard.
  ///
  /// The first shard has its own call, because a shard selected before a common call would be retained. Its reference
  /// count would then move between the processors' caches with each hit.
  @inlinable
  @inline(__always)
  func withState<Result>(
    _ hash: Int, _ body: (inout sending ShardState<Key, Value>) -> sending Result
  ) -> sending Result {
    if shardMask == 0 { return firstShard.state.withLock(body) }
    return shards[(hash >> 32) & shardMask].state.withLock(body)
  }

  @inlinable
  @inline(__always)
  func reading() -> Int64 {
    hasClock ? customReading() : CacheInstant.systemNanoseconds()
  }

  @usableFromInline
  @inline(never)
  func customReading() -> Int64 {
    clock?().nanoseconds ?? 0
  }

  /// Reports and releases removed entries, outside the lock.
  @inlinable
  func deliver(_ removed: consuming Removals<Key, Value>) {
    guard !removed.isEmpty else { return }
    if let onRemoval { removed.forEach(onRemoval) }
    if let releaseQueue { ReleaseParcel.send(removed, to: releaseQueue) }
  }

  /// Continues an eviction that exceeded a chunk when an entry was set.
  @usableFromInline
  func evictRest(_ hash: Int, sparing entry: SparedEntry) {
    while true {
      var removed = Removals<Key, Value>()
      let isDone = withState(hash) { state in state.evict(sparing: entry, removed: &removed) }
      deliver(removed)
      if isDone { return }
    }
  }

  /// Frees memory before the control group reaches its limit.
  @usableFromInline
  func checkMemory() {
    if let pressure = configuration.pressureMonitor.currentPressure() { respond(to: pressure) }
  }

  @usableFromInline
  func startTimer() {
    timer.start { [weak self] in self?.trim() }
  }
}
