public import Dispatch
public import Locks

/// A cache in memory: values by key, within limits of count, cost, age and lifetime.
///
/// Any thread may use it, and waits for other operations only. Each operation on a key takes amortised constant time.
///
/// Values leave, are reported and are released outside the lock, so a `deinit` and the removal listener may use the
/// cache. A key's `==` runs inside the lock and must not.
///
/// ```swift
/// let covers = MemoryCache<String, Cover>(MemoryCacheConfiguration(limits: MemoryCacheLimits(cost: 64 << 20)))
/// covers.setValue(cover, forKey: "42", cost: cover.byteCount, lifetime: .absolute(.seconds(3600)))
/// if let cover = covers.value(forKey: "42") { … }
/// ```
public final class MemoryCache<Key: Hashable & Sendable, Value: Sendable>: Sendable {
  public typealias Entry = MemoryCacheEntry<Key, Value>
  /// Receives an entry that has left the cache, outside the lock.
  ///
  /// The thread that made it leave calls this. Removals of one key by several threads may be told in another order than
  /// they happened.
  public typealias RemovalListener = @Sendable (RemovedEntry<Key, Value>) -> Void

  public let configuration: MemoryCacheConfiguration
  @usableFromInline let shards: [CacheShard<Key, Value>]
  /// The first of `shards`; without others nothing needs to be chosen.
  @usableFromInline let firstShard: CacheShard<Key, Value>
  @usableFromInline let shardMask: Int
  @usableFromInline let onRemoval: RemovalListener?
  @usableFromInline let releaseQueue: DispatchQueue?
  @usableFromInline let clock: (@Sendable () -> CacheInstant)?
  /// Whether there is a clock: cheaper to ask than the closure, which would be retained.
  @usableFromInline let hasClock: Bool
  let currentLimits: Lock<MemoryCacheLimits>
  let timer: TrimTimer
  private let pressure = Lock<MemoryPressureSubscription?>(nil)

  /// - Parameters:
  ///   - configuration: limits, policy and lifetimes.
  ///   - onRemoval: called with each entry that leaves, also when a value takes the place of another.
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
  /// The value of a key; the look counts as a use.
  ///
  /// The entry becomes the most recent, and a sliding lifetime begins anew. An expired entry is removed and reported as
  /// `.expired`.
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

  /// The value of a key, without counting a use; O(1) expected.
  ///
  /// It is in no statistics.
  @inlinable
  public func peek(_ key: Key) -> Value? {
    look(key) { state, slot in unsafe state.slots.contents[Int(slot)].value }
  }

  /// Whether there is a value that would be served; does not count as a use. O(1) expected.
  @inlinable
  public func contains(_ key: Key) -> Bool {
    look(key) { _, _ in true } ?? false
  }

  /// The value of a key with its cost and times, without counting a use.
  ///
  /// O(1) expected.
  @inlinable
  public func entry(forKey key: Key) -> Entry? {
    look(key) { state, slot in state.entry(slot) }
  }

  /// `value(forKey:)`, and `setValue(_:forKey:)` with cost 0 and the default lifetime; nil removes.
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
  func look<Result: Sendable>(
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
  /// Sets the value of a key, and makes it the most recent.
  ///
  /// The key's old value is removed in any case, so that it is not found afterwards. Then others are evicted until the
  /// limits hold; the value just set is not among them. Memory pressure may take it at any time, also pressure that a
  /// growing cache finds itself (`costsAreBytes`).
  ///
  /// - Parameters:
  ///   - value: the value.
  ///   - key: the key it is found by.
  ///   - cost: in the unit of the cost limit; less than zero counts as zero.
  ///   - lifetime: nil for the configuration's.
  /// - Returns: false if the value was not kept: dearer than one entry may be, its lifetime over, or a count limit of 0.
  /// - Complexity: amortised O(1) expected, and O(1) for each entry evicted, under the lock for 256 at a time.
  @inlinable
  @discardableResult
  public func setValue(_ value: Value, forKey key: Key, cost: Int = 0, lifetime: EntryLifetime? = nil) -> Bool {
    let hash = Self.hash(key)
    let now = reading()
    let lifetime = lifetime ?? configuration.lifetime
    let deadline = lifetime.deadline(from: now)
    var removed = Removals<Key, Value>()
    let outcome = withState(hash) { state in
      state.set(
        value, forKey: key, UInt32(truncatingIfNeeded: hash), cost: max(cost, 0), deadline: deadline,
        sliding: lifetime.slidingNanoseconds, now: now, removed: &removed)
    }
    if deadline != .max { startTimer() }
    deliver(removed)
    if !outcome.isWithinLimits { evictRest(hash, sparing: outcome.entry) }
    if outcome.hasGrown { lookAtMemory() }
    return outcome.isKept
  }
}

// MARK: - Removing

extension MemoryCache {
  /// Removes the value of a key.
  ///
  /// - Returns: what was removed; nil if there was nothing that would have been served. It is the caller's to release, also
  ///   where there is a queue for that; `cache[key] = nil` returns nothing.
  /// - Complexity: O(1) expected.
  @inlinable
  @discardableResult
  public func removeValue(forKey key: Key) -> Value? {
    delivered(removeEntry(forKey: key) { _ in true })
  }

  /// Removes the value of a key if the predicate accepts it, for example as stale.
  ///
  /// Between the look at the value and its removal no other can take its place. The predicate runs outside the lock.
  ///
  /// - Returns: what was removed.
  @inlinable
  @discardableResult
  public func removeValue(forKey key: Key, where isIncluded: (Value) throws -> Bool) rethrows -> Value? {
    guard let entry = entry(forKey: key), try isIncluded(entry.value) else { return nil }
    return delivered(removeEntry(forKey: key) { $0 == entry.serial })
  }

  /// The value that was removed, if it would have been served.
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

  /// The upper half of a hash chooses the shard, the lower half the place.
  ///
  /// There are two calls. One call on a shard chosen before would retain it, and its reference count would travel
  /// between the processors' caches with each hit.
  @inlinable
  @inline(__always)
  func withState<Result>(
    _ hash: Int, _ body: (inout sending ShardState<Key, Value>) -> sending Result
  ) -> sending Result {
    if shardMask == 0 { return firstShard.state.withLock(body) }
    return shards[(hash >> 32) & shardMask].state.withLock(body)
  }

  /// The time, in nanoseconds.
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

  /// Reports and releases what has left, outside the lock.
  @inlinable
  func deliver(_ removed: consuming Removals<Key, Value>) {
    guard !removed.isEmpty else { return }
    if let onRemoval { removed.forEach(onRemoval) }
    if let releaseQueue { ReleaseParcel.send(removed, to: releaseQueue) }
  }

  /// Evicts what did not leave under the hold of the lock that set an entry.
  @usableFromInline
  func evictRest(_ hash: Int, sparing entry: SparedEntry) {
    while true {
      var removed = Removals<Key, Value>()
      let isDone = withState(hash) { state in state.evict(sparing: entry, removed: &removed) }
      deliver(removed)
      if isDone { return }
    }
  }

  /// Gives back memory before the control group has none left.
  @usableFromInline
  func lookAtMemory() {
    if let pressure = configuration.pressureMonitor.currentPressure() { respond(to: pressure) }
  }

  @usableFromInline
  func startTimer() {
    timer.start { [weak self] in self?.trim() }
  }
}
