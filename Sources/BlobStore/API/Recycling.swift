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
