public import SystemPackage

extension BlobStore {
  /// What a collection did; in a dry run, what it would have done.
  public struct CollectionReport: Hashable, Sendable {
    public var directory: FilePath
    /// Record files looked at, damaged ones too, and those in subdirectories passed over.
    public var examined: Int64 = 0
    /// Records removed because their time was over.
    public var expired: Int64 = 0
    /// Records removed to keep the limits, or for a trim's goal.
    public var evicted: Int64 = 0
    /// Damaged files removed.
    public var damaged: Int64 = 0
    /// Temporary files removed whose writers were gone.
    public var temporary: Int64 = 0
    /// Empty subdirectories removed.
    public var subdirectories: Int64 = 0
    /// Files in the recycling bin that were unlinked.
    public var recycled: Int64 = 0
    /// Records whose update time lay more than a day ahead, from a clock that was wrong. They count as stored now.
    public var stampedAhead: Int64 = 0
    /// Files that could not be read or removed. Each was logged; those that were `busy`, together.
    public var failed: Int64 = 0
    /// Of these, records that other changes had all the while, or keys that share their locks.
    ///
    /// They were to go. The next collection meets them again.
    public var busy: Int64 = 0
    /// Files that are not records only because they are another user's: they stay.
    public var foreignRecords = ForeignRecords()
    /// Bytes of all that was removed, of which some may lie in the recycling bin now.
    public var bytesFreed: Int64 = 0
    /// Records and damaged files that are left.
    public var recordsAfter: Int64 = 0
    /// Bytes of the records and damaged files that are left, quarantine included.
    public var bytesAfter: Int64 = 0
    /// Bytes of unlinked files of the recycling bin, and of those left: in no other number.
    public var recycledBytesFreed: Int64 = 0
    public var recycledBytesAfter: Int64 = 0
    public var seconds: Double = 0
    /// Whether the expiry pass ended before it had seen everything: its time was up, or it was stopped.
    public var wasCutShort = false
    /// Whether it was stopped; then nothing was evicted that had not been by then.
    public var wasStopped = false
    public var dryRun = false

    public init(directory: FilePath) {
      self.directory = directory
    }
  }
}
