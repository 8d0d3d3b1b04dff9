/// When a store has to look at what the packs take on the medium: once in so many stored bytes.
///
/// Records that are replaced leave the directory within its limit, and the packs grow all the same.
final class PackedWatch: Sendable {
  private let interval: Int64
  private let bytesUntilLook: BytesUntilLook

  /// - Returns: nil where nothing is packed, or all may grow.
  init?(_ configuration: BlobStore.Configuration) {
    guard let limit = configuration.limits.size, configuration.mayPack else { return nil }
    interval = max(limit / 16, Int64(configuration.packChunkByteCount ?? PackLayout.chunkByteCount))
    bytesUntilLook = BytesUntilLook(interval)
  }

  /// Counts what was stored.
  ///
  /// - Returns: whether the caller is the one to look.
  func isDue(after byteCount: Int64) -> Bool {
    guard bytesUntilLook.isDue(after: byteCount) else { return false }
    bytesUntilLook.begin(interval)
    return true
  }
}
