public import BlobRecord
public import MemoryCache

// Methods for the blobs in memory, which do not affect the disk.
extension BlobCache {
  /// Removes a blob from memory, but not its record.
  public func removeFromMemory(_ key: BlobKey) { engine.memory?.discard(key) }

  /// Removes all blobs from memory, but not their records, for example when an app enters the background.
  public func removeAllFromMemory() { engine.memory?.cache.removeAll() }

  /// Evicts blobs from memory until the others take at most this number of bytes.
  public func trimMemory(toByteCount byteCount: Int) { engine.memory?.cache.trim(toCost: byteCount) }

  /// Evicts blobs from memory until at most this number is left.
  public func trimMemory(toCount count: Int) { engine.memory?.cache.trim(toCount: count) }

  /// Removes blobs from memory that were unused for longer than the given duration.
  public func trimMemory(toAge age: Duration) { engine.memory?.cache.trim(toAge: age) }

  /// Frees memory as under memory pressure of the system, for programs with better information.
  public func respondToMemoryPressure(_ pressure: MemoryPressure) { engine.memory?.cache.respond(to: pressure) }
}
