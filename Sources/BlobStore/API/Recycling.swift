internal import Posix

extension BlobStore {
  /// What becomes of the files of records that are removed, replaced, expired or evicted.
  public enum Recycling: Hashable, Sendable {
    /// They are unlinked.
    case off
    /// They are kept to be overwritten by later stores, within a hundredth of the size limit, or 16 MiB where that is
    /// more, but never more than a tenth of the limit or than `limits.evictionTarget` leaves of it; without a limit 16 MiB; and
    /// 4096 files. Where the platform or the file system has no leases, nothing is kept. That somebody has come to read a
    /// file that is being overwritten, the kernel tells the process by SIGURG, which is ignored by default.
    case automatic
    /// The same, with other bounds.
    case bounded(bytes: Int64, files: Int64)
  }
}

/// How much the recycling bin may hold.
struct RecyclingLimit: Sendable {
  /// Headers included.
  let bytes: Int64
  let files: Int64

  /// - Returns: nil where nothing is to be recycled.
  init?(_ configuration: BlobStore.Configuration) {
    guard WriteLease.isAvailable else { return nil }
    switch configuration.recycling {
    case .off: return nil
    case .automatic:
      bytes =
        configuration.limits.size.map { limit in
          // What a collection leaves free of the limit: the bin and what the collection leaves are within it together.
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
