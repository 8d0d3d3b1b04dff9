public import Locks

/// One part of a `MemoryCache`, with a lock of its own.
@usableFromInline
final class CacheShard<Key: Hashable & Sendable, Value: Sendable>: Sendable {
  @usableFromInline let state: Lock<ShardState<Key, Value>>

  @inlinable
  init(limits: ShardLimits, policy: EvictionPolicy, growthStep: Int) {
    state = Lock(ShardState(limits: limits, policy: policy, growthStep: growthStep))
  }
}
