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
