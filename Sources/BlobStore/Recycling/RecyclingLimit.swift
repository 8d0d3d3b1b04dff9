internal import Posix

/// How much the recycling bin may hold.
struct RecyclingLimit: Sendable {
  /// Headers included.
  let bytes: Int64
  let files: Int64

  /// - Returns: nil where nothing is recycled.
  init?(_ configuration: BlobStore.Configuration) {
    guard WriteLease.isAvailable else { return nil }
    switch configuration.recycling {
    case .off: return nil
    case .automatic:
      bytes =
        configuration.limits.size.map { limit in
          // The bytes that a collection leaves free of the limit: the bin and the remaining records are within it
          // together.
          min(max(limit / 100, 16 << 20), limit / 10, limit - limit.share(configuration.limits.evictionTarget))
        } ?? 16 << 20
      files = 4096
    case .bounded(let bytes, let files):
      self.bytes = bytes
      self.files = files
    }
    guard bytes > 0, files > 0 else { return nil }
  }
}
