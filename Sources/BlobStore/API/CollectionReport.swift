public import BlobRecord
internal import Locks
public import SystemPackage

extension BlobStore {
  /// The result of a collection, or in a dry run, the result that it would have had.
  public struct CollectionReport: Hashable, Sendable {
    public var directory: FilePath
    /// The number of examined record files, including damaged ones and those in skipped subdirectories.
    public var examined: Int64 = 0
    /// The number of expired records that were removed.
    public var expired: Int64 = 0
    /// The number of records that were removed to enforce the limits, or for the goal of a trim.
    public var evicted: Int64 = 0
    /// The number of damaged files that were removed.
    public var damaged: Int64 = 0
    /// The number of temporary files that were removed because their writers had ended.
    public var temporary: Int64 = 0
    /// The number of empty subdirectories that were removed.
    public var subdirectories: Int64 = 0
    /// The number of files in the recycling bin that were unlinked.
    public var recycled: Int64 = 0
    /// The number of records with an update time more than a day ahead, which are treated as if they were stored now.
    public var stampedAhead: Int64 = 0
    /// The number of files that could not be read or removed. Each was logged, except that `busy` ones share a message.
    public var failed: Int64 = 0
    /// The number of `failed` records whose stripes stayed busy, which the next collection tries again to remove.
    public var busy: Int64 = 0
    /// The files that stay because another user owns them, which is the only reason why they are not records.
    public var foreignRecords = ForeignRecords()
    /// The number of bytes of everything that was removed, including files that moved to the recycling bin.
    public var bytesFreed: Int64 = 0
    /// The number of records and damaged files that are left.
    public var recordsAfter: Int64 = 0
    /// The number of bytes of the records and damaged files that are left, including the quarantine.
    public var bytesAfter: Int64 = 0
    /// The bytes of unlinked files of the recycling bin, which are not part of another property.
    public var recycledBytesFreed: Int64 = 0
    public var recycledBytesAfter: Int64 = 0
    public var seconds: Double = 0
    /// A Boolean value that indicates whether the expiry pass was stopped or reached its time limit.
    public var wasCutShort = false
    /// A Boolean value that indicates whether the collection was stopped, after which it evicted no more records.
    public var wasStopped = false
    public var dryRun = false

    public init(directory: FilePath) {
      self.directory = directory
    }
  }

  /// The totals of all collections of a directory, by all processes, since its control file was created.
  public struct CollectionStatistics: Hashable, Sendable {
    /// A past collection.
    public struct Pass: Hashable, Sendable {
      /// The time at which the collection ended.
      public var time: UnixTime
      /// The process that ran the collection, which may have ended, and whose number may have been reused.
      public var process: Int32
      public var seconds: Double
    }

    /// The number of collections that examined the directory as far as their time allowed, and were not stopped.
    public var passes: Int64 = 0
    /// The number of collections that only evicted records known from an earlier one, to enforce the limits.
    public var evictions: Int64 = 0
    public var expired: Int64 = 0
    public var evicted: Int64 = 0
    /// The number of evicted records whose cause was the size limit.
    public var evictedForSizeLimit: Int64 = 0
    /// The number of evicted records whose cause was the count limit.
    public var evictedForCountLimit: Int64 = 0
    /// The number of evicted records whose cause was too little free space on the volume.
    public var evictedForFreeSpace: Int64 = 0
    /// The number of evicted records whose cause was the goal of a trim.
    public var evictedByTrims: Int64 = 0
    /// The average number of seconds from a record's last update to its eviction, or `nil` if none is known.
    public var meanEvictedAge: Int64?
    public var damaged: Int64 = 0
    public var temporary: Int64 = 0
    public var bytesFreed: Int64 = 0
    /// The total duration of the collections.
    public var seconds: Double = 0
    /// The last of `passes`, or `nil` before the first one, or if its time is ahead of this store's clock.
    public var lastPass: Pass?

    public init() {}
  }

  /// A recent whole collection, and the changes since the one before it.
  public struct RecentPass: Hashable, Sendable {
    /// The time at which the collection ended.
    public var time: UnixTime
    /// The duration of the collection.
    public var seconds: Double
    /// The number of expired records that all collections have removed since the previous pass.
    public var expired: Int64
    /// The number of records that all collections have evicted since the previous pass.
    public var evicted: Int64
    public var bytesFreed: Int64
    /// The number of loads since the previous pass that found a record.
    public var hits: Int64
    public var misses: Int64
    public var stores: Int64

    /// The share of hits in all loads since the previous pass, from 0 to 1, or `nil` without loads.
    public var hitRatio: Double? {
      let loads = hits.saturatingAdding(misses)
      return loads > 0 ? Double(hits) / Double(loads) : nil
    }
  }
}

/// The callbacks of a store's collections, including automatic ones, for a cache in front of the store.
package struct CollectionObserver: Sendable {
  /// Called before records are examined, on the collection's thread, which holds no stripe.
  package var willBegin: @Sendable () -> Void
  /// Called for each removed record file, on the same thread, after its stripe was released, but not in dry runs.
  package var didRemove: @Sendable (CollectedRecord) -> Void
  /// Called with the report when a collection has succeeded, on the same thread.
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
    /// The record was evicted for a limit, or for the goal of a trim.
    case evicted
    case damaged(RecordError)
  }

  package let cause: Cause
  /// The key, or `nil` if it cannot be derived from the file name.
  package let key: BlobKey?
  /// The digest of the file name.
  package let digest: UInt64
  /// The size of header and payload, in bytes.
  package let fileSize: Int64
}

/// The observer that a store and its limits share, which is set after both are created.
final class CollectionObservation: Sendable {
  private let state = Lock<CollectionObserver?>(nil)

  var observer: CollectionObserver? {
    get { state.withLock { $0 } }
    set { state.withLock { $0 = newValue } }
  }
}
