public import BlobRecord
internal import Locks
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

  /// The work of all collections of a directory, by all processes, since its control file was made.
  public struct CollectionStatistics: Hashable, Sendable {
    /// A collection of the past.
    public struct Pass: Hashable, Sendable {
      /// When it ended.
      public var time: UnixTime
      /// The process that made it. It may have ended, and another may have its number.
      public var process: Int32
      public var seconds: Double
    }

    /// Collections that looked at the whole directory, or at as much as their time allowed.
    ///
    /// Stopped ones do not count.
    public var passes: Int64 = 0
    /// Collections that only evicted records, known from an earlier one, to keep the limits.
    public var evictions: Int64 = 0
    public var expired: Int64 = 0
    public var evicted: Int64 = 0
    /// Of those, records that went because there were more bytes than the size limit allows.
    public var evictedForSizeLimit: Int64 = 0
    /// Of those, records that went because there were more than the count limit allows.
    public var evictedForCountLimit: Int64 = 0
    /// Of those, records that went because the volume had too little room left.
    public var evictedForFreeSpace: Int64 = 0
    /// Of those, records that went for the goal of a trim.
    public var evictedByTrims: Int64 = 0
    /// Seconds from the last update of evicted records to their end, on average; nil if none is known.
    public var meanEvictedAge: Int64?
    public var damaged: Int64 = 0
    public var temporary: Int64 = 0
    public var bytesFreed: Int64 = 0
    /// How long they took together.
    public var seconds: Double = 0
    /// The last of `passes`; nil before the first.
    ///
    /// It is also nil if its time lies in the future of this store's clock.
    public var lastPass: Pass?

    public init() {}
  }

  /// A whole collection of late, and what has happened since the one before it.
  public struct RecentPass: Hashable, Sendable {
    /// When it ended.
    public var time: UnixTime
    /// How long it took.
    public var seconds: Double
    /// Records that all collections have removed since the pass before, because their time was over.
    public var expired: Int64
    /// Those that they have removed to keep the limits.
    public var evicted: Int64
    public var bytesFreed: Int64
    /// Loads that were answered since the pass before.
    public var hits: Int64
    public var misses: Int64
    public var stores: Int64

    /// Hits of all loads since the pass before, from 0 to 1; nil without loads.
    public var hitRatio: Double? {
      let loads = hits.saturatingAdding(misses)
      return loads > 0 ? Double(hits) / Double(loads) : nil
    }
  }
}

/// Hears of every collection of a store, also of those that the store starts by itself. A cache in front of it
/// observes.
package struct CollectionObserver: Sendable {
  /// Called before records are looked at, on the thread that makes the collection, which holds no stripe.
  package var willBegin: @Sendable () -> Void
  /// Called for each record file that was removed, on the same thread, after its stripe was released; not in dry runs.
  package var didRemove: @Sendable (CollectedRecord) -> Void
  /// Called when a collection has come to its end, on the same thread, with what it did; not when it has failed.
  package var didEnd: @Sendable (BlobStore.CollectionReport) -> Void

  package init(
    willBegin: @escaping @Sendable () -> Void, didRemove: @escaping @Sendable (CollectedRecord) -> Void,
    didEnd: @escaping @Sendable (BlobStore.CollectionReport) -> Void
  ) {
    self.willBegin = willBegin
    self.didRemove = didRemove
    self.didEnd = didEnd
  }
}

/// A record file that a collection has removed.
package struct CollectedRecord: Sendable {
  package enum Cause: Sendable {
    case expired
    /// For a limit, or a trim's goal.
    case evicted
    case damaged(RecordError)
  }

  package let cause: Cause
  /// nil where the file name does not tell it.
  package let key: BlobKey?
  /// Of the file name.
  package let digest: UInt64
  /// Header and payload, in bytes.
  package let fileSize: Int64
}

/// Where a store and its limits find the observer, which is set after both are made.
final class CollectionObservation: Sendable {
  private let state = Lock<CollectionObserver?>(nil)

  var observer: CollectionObserver? {
    get { state.withLock { $0 } }
    set { state.withLock { $0 = newValue } }
  }
}
