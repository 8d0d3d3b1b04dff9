extension BlobStore {
  /// The fate of files whose records are removed, replaced, expired or evicted.
  public enum Recycling: Hashable, Sendable {
    /// They are unlinked.
    case off
    /// Later stores overwrite them. 4096 files are kept at most, and 16 MiB.
    ///
    /// Under a size limit a hundredth of it is kept, if that is more than 16 MiB. A tenth of the limit is never exceeded,
    /// nor what `limits.evictionTarget` leaves of it. Where the platform or the file system has no leases, nothing is kept.
    /// When a reader opens a file that is being overwritten, the kernel sends the process SIGURG, which is ignored by
    /// default.
    case automatic
    /// Later stores overwrite them, within these bounds.
    case bounded(bytes: Int64, files: Int64)
  }
}
