import BlobCache
import Foundation
import Locks

/// A remote object that logs requests.
final class Origin: Sendable {
  let bytes: Data
  private let ranges = Log<Range<Int64>>()
  private let holder = Lock<(@Sendable () async -> Void)?>(nil)

  init(_ bytes: Data) { self.bytes = bytes }

  /// The requested ranges, in order.
  var asked: [Range<Int64>] { ranges.all }

  /// Sets a closure that answers wait for, starting with the next one.
  func hold(_ body: (@Sendable () async -> Void)?) { holder.withLock { $0 = body } }

  func slices(
    in cache: BlobCache, sliceSize: Int, validator: String = "v1", options: SliceOptions = SliceOptions()
  ) throws -> CacheSlices {
    try cache.slices(
      of: "film", totalSize: Int64(bytes.count), sliceSize: sliceSize, validator: validator, options: options
    ) { [self] range in
      ranges.append(range)
      if let hold = holder.withLock({ $0 }) { await hold() }
      return bytes[range]
    }
  }
}

extension TestCache {
  /// Returns the keys of the stored slices.
  func sliceKeys(_ cache: BlobCache, _ prefix: String = "film@slices/") async throws -> Set<String> {
    var keys: Set<String> = []
    for try await entry in cache.records(prefix: prefix) { if let key = entry.key { keys.insert(key.string) } }
    return keys
  }
}
