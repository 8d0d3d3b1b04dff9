import BlobCache
import Foundation
import Locks

/// A remote object, and what was asked of it.
final class Origin: Sendable {
  let bytes: Data
  private let ranges = Log<Range<Int64>>()
  private let holder = Lock<(@Sendable () async -> Void)?>(nil)

  init(_ bytes: Data) { self.bytes = bytes }

  /// The ranges that were asked for, in their order.
  var asked: [Range<Int64>] { ranges.all }

  /// Has answers wait, from the next on.
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
  /// The keys of the slices that are there.
  func sliceKeys(_ cache: BlobCache, _ prefix: String = "film@slices/") async throws -> Set<String> {
    var keys: Set<String> = []
    for try await entry in cache.records(prefix: prefix) { if let key = entry.key { keys.insert(key.string) } }
    return keys
  }
}
