internal import BlobRecord
internal import BlobStore

/// The outcome of a look for a blob, and its cost.
struct LookupResult: Sendable {
  /// nil if there was none that is live.
  var blob: Blob?
  var tier = CacheEvent.Tier.disk
  var duration = Duration.zero
  var queueTime = Duration.zero

  /// A hit or a miss.
  func event(for key: BlobKey) -> CacheEvent {
    guard let blob else { return miss(for: key) }
    return CacheEvent(
      .hit(tier), key, byteCount: blob.payload.count, duration: duration, queueTime: queueTime)
  }

  /// A miss, though a blob may have been found: one that will not do.
  func miss(for key: BlobKey) -> CacheEvent { CacheEvent(.miss, key, duration: duration, queueTime: queueTime) }
}
