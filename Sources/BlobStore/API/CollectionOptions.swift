public import BlobRecord
package import Logging

extension BlobStore {
  /// The options of a collection.
  public struct CollectionOptions: Sendable {
    /// A Boolean value that indicates whether the collection only reports the records that it would remove.
    public var dryRun = false
    /// The most time that the expiry pass may take, or `nil` if it has no limit.
    ///
    /// A pass that reaches the limit stores its position in the directory, where the next pass with a limit
    /// continues. Each pass examines at least 256 files, or one subdirectory with fewer. A dry run, and a pass in a
    /// directory without shared memory, examine at least one whole subdirectory.
    public var maximumTime: Duration?
    /// A Boolean value that indicates whether the collection examines every file, as it does once a day in any case.
    ///
    /// If `false`, it skips subdirectories in which no record can be due, by the marks of earlier collections.
    public var looksAtEverything = false
    /// A Boolean value that indicates whether recycled files are unlinked, including those of records removed now.
    public var emptiesBin = false
    /// A Boolean value that indicates whether the collection refuses a directory that nothing shows to be a cache.
    ///
    /// Such a directory (`notACache`) contains files in the places of records, but no control file and no sound record.
    /// The check keeps an operator's mistake from removing files that look like damaged records. In a directory without
    /// any record files, the collection creates no control file.
    public var requiresCache = false
    /// The time to wait for another collection of the directory to end, or `nil` to fail immediately.
    public var waitsForOther: Duration?
    /// A closure that receives the progress every `progressStep` files and at the end, on the collection's thread.
    public var progress: (@Sendable (CollectionProgress) -> Void)?
    /// A closure that is called before each file, and ends the collection by returning `true`, like task cancellation.
    public var isStopped: (@Sendable () -> Bool)?

    /// A closure that ends the wait for another collection with `collectionRunning` by returning `true`.
    package var givesUpWaiting: (@Sendable () -> Bool)?

    /// The goal of a trim, or `nil` for other collections.
    var goal: TrimGoal?

    /// The time that an unused file stays in the recycling bin, by default the interval of collections.
    package var recycledFileAge: Duration = CollectionTiming().interval

    /// The number of eviction candidates to remember, of 200 bytes each. A larger eviction walks the directory twice.
    package var rememberedRecords = 1 << 17

    /// The number of files after which a pass may stop within a subdirectory, which then gets no mark for later passes.
    package var smallestPart = 256

    /// The number of files between two calls of `progress`. Their examination takes a few milliseconds.
    public static let progressStep = 1024

    public init(dryRun: Bool = false, maximumTime: Duration? = nil) {
      self.dryRun = dryRun
      self.maximumTime = maximumTime
    }
  }

  /// The progress of a collection.
  public struct CollectionProgress: Hashable, Sendable {
    public enum Phase: String, Sendable {
      /// Examines every record, and removes every due one regardless of the directory's size.
      case expiry
      /// Examines every record a second time, and evicts records to enforce the limits.
      case size
    }

    public var phase: Phase
    /// The number of record files that this phase has examined.
    public var examined: Int64
    /// The number of record files according to the directory's counters, or `nil` if they are unknown.
    public var expected: Int64?
    /// The number of bytes of everything that was removed.
    public var bytesFreed: Int64

    public init(phase: Phase, examined: Int64, expected: Int64?, bytesFreed: Int64) {
      self.phase = phase
      self.examined = examined
      self.expected = expected
      self.bytesFreed = bytesFreed
    }
  }

  /// The goal of a trim, toward which locked records count although they are never removed.
  public enum TrimGoal: Hashable, Sendable {
    /// The most bytes, including headers, that may stay, in the order of `Configuration.Limits.eviction`.
    case byteCount(Int64)
    /// The most records, including damaged ones, that may stay, in the order of `Configuration.Limits.eviction`.
    case recordCount(Int64)
    /// Records that were updated before this time are removed.
    case updatedSince(UnixTime)
    /// Records whose payload has more bytes than this are removed.
    case payloads(upTo: Int64)
  }
}

extension BlobStore.TrimGoal {
  /// A Boolean value that indicates whether the goal limits the sum of all records.
  var isAmount: Bool { byteLimit != nil || recordLimit != nil }

  var byteLimit: Int64? {
    guard case .byteCount(let limit) = self else { return nil }
    return max(limit, 0)
  }

  var recordLimit: Int64? {
    guard case .recordCount(let limit) = self else { return nil }
    return max(limit, 0)
  }

  /// Returns whether a record exceeds the goal by itself, and must be removed unless it is locked.
  func excludes(_ header: RecordHeader) -> Bool {
    switch self {
    case .byteCount, .recordCount: false
    case .updatedSince(let time): header.lastUpdate < time
    case .payloads(let limit): header.payloadSize > UInt64(max(limit, 0))
    }
  }
}

extension BlobStore {
  /// The schedule of automatic collections, with the default interval of SPTPersistentCache.
  public struct CollectionTiming: Hashable, Sendable {
    /// The time from the end of one pass to the start of the next.
    public var interval: Duration = .seconds(363)
    /// The most random time that is added to each interval, or `nil` for a tenth of the interval.
    ///
    /// The jitter keeps programs that were started together from collecting in step. A negative value counts as zero.
    public var jitter: Duration?
    /// The time from the start of the schedule to its first pass.
    public var firstDelay: Duration = .zero

    /// The shortest interval, as in SPTPersistentCache, to which shorter ones are raised with a logged warning.
    public static let minimumInterval: Duration = .seconds(60)

    public init(interval: Duration = .seconds(363), jitter: Duration? = nil, firstDelay: Duration = .zero) {
      self.interval = interval
      self.jitter = jitter
      self.firstDelay = firstDelay
    }

    /// The interval that is used, which is at least `minimumInterval`.
    public var effectiveInterval: Duration { max(interval, Self.minimumInterval) }

    var effectiveJitter: Duration { max(jitter ?? effectiveInterval / 10, .zero) }

    package func warnIfRaised(_ logger: Logger) {
      guard effectiveInterval != interval else { return }
      logger.warning("a collection interval of \(interval) is raised to \(effectiveInterval)")
    }
  }
}
