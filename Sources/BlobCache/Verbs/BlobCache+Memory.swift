public import BlobRecord
public import MemoryCache

// The content of memory. None of this concerns the disk.
extension BlobCache {
  /// Takes a blob out of memory; the record stays.
  public func removeFromMemory(_ key: BlobKey) { engine.memory?.discard(key) }

  /// Takes all blobs out of memory; the records stay. For an app that goes to the background.
  public func removeAllFromMemory() { engine.memory?.cache.removeAll() }

  /// Takes the least used blobs out of memory until the rest takes at most so many bytes.
  public func trimMemory(toByteCount byteCount: Int) { engine.memory?.cache.trim(toCost: byteCount) }

  /// Takes blobs out of memory until at most so many are left.
  public func trimMemory(toCount count: Int) { engine.memory?.cache.trim(toCount: count) }

  /// Takes blobs out of memory that were not used for longer than that.
  public func trimMemory(toAge age: Duration) { engine.memory?.cache.trim(toAge: age) }

  /// Gives memory back as under the system's own signal, for programs that know better when.
  public func respondToMemoryPressure(_ pressure: MemoryPressure) { engine.memory?.cache.respond(to: pressure) }
}
