public import BlobRecord
package import Logging

extension BlobStore {
  /// How a collection is made.
  public struct CollectionOptions: Sendable {
    /// Reports what would be removed, and removes nothing.
    public var dryRun = false
    /// How long the expiry pass may take; nil without a limit.
    ///
    /// A pass that is cut short leaves its place in the directory, and the next one with a maximum goes on there. Each looks
    /// at 256 files at least, or at one subdirectory with fewer. A dry run does at least one subdirectory, and so does
    /// a pass where processes share no memory.
    public var maximumTime: Duration?
    /// Whether to look at every file.
    ///
    /// If false, the collection passes over subdirectories in which nothing can be due, by an earlier collection's
    /// marks. Once a day a collection looks at everything by itself.
    public var looksAtEverything = false
    /// Whether the recycling bin is emptied. Then the files of removed records are unlinked too.
    public var emptiesBin = false
    /// Whether to refuse a directory that nothing shows to be a cache, with `notACache`.
    ///
    /// Such a directory holds files where records would lie, but no control file and not one sound record. An
    /// operator's slip must not cost files that look like damaged records. Where there are no such files either, no
    /// control file is made.
    public var requiresCache = false
    /// How long to wait for another collection of the directory to end; nil to wait for none.
    public var waitsForOther: Duration?
    /// Receives the progress every `progressStep` files, and at the end.
    ///
    /// The call comes on the thread that makes the collection.
    public var progress: (@Sendable (CollectionProgress) -> Void)?
    /// Asked before each file; once it answers true, the collection ends with the file in hand. A cancelled task ends it
    /// in the same way.
    public var isStopped: (@Sendable () -> Bool)?

    /// Asked during the wait for another collection. Once it answers true, this one ends with `collectionRunning`.
    package var givesUpWaiting: (@Sendable () -> Bool)?

    /// The goal of a trim; nil for other collections.
    var goal: TrimGoal?

    /// How long a file stays in the recycling bin unless it is needed: the default interval of collections.
    package var recycledFileAge: Duration = CollectionTiming().interval

    /// The number of records that are first in the order of eviction and remembered while a limit is exceeded.
    ///
    /// Each takes about 200 bytes. An eviction of up to so many takes one walk over the directory, a larger one two.
    package var rememberedRecords = 1 << 17

    /// Files of a subdirectory that a pass must have met to end in its middle: few enough to take no time.
    ///
    /// A subdirectory that is walked in parts gets no mark by which later passes could pass over it.
    package var smallestPart = 256

    /// Files between two calls of `progress`: some milliseconds' worth.
    public static let progressStep = 1024

    public init(dryRun: Bool = false, maximumTime: Duration? = nil) {
      self.dryRun = dryRun
      self.maximumTime = maximumTime
    }
  }

  /// How far a collection has come.
  public struct CollectionProgress: Hashable, Sendable {
    public enum Phase: String, Sendable {
      /// Looks at every record, and removes those that are due at any size of the directory.
      case expiry
      /// Evicts records to keep the limits: a second look at every record.
      case size
    }

    public var phase: Phase
    /// Record files that this phase has looked at.
    public var examined: Int64
    /// How many there are, by the directory's counters; nil where they are not known.
    public var expected: Int64?
    /// Bytes of all that was removed.
    public var bytesFreed: Int64

    public init(phase: Phase, examined: Int64, expected: Int64?, bytesFreed: Int64) {
      self.phase = phase
      self.examined = examined
      self.expected = expected
      self.bytesFreed = bytesFreed
    }
  }

  /// What a trim brings a directory to. Locked records stay, and count.
  public enum TrimGoal: Hashable, Sendable {
    /// The most bytes that may stay, headers included. Records are evicted in the order of `Configuration.Limits.eviction`.
    case byteCount(Int64)
    /// The most records that may stay, damaged ones included. Records are evicted in the order of
    /// `Configuration.Limits.eviction`.
    case recordCount(Int64)
    /// No record whose update time lies before.
    case updatedSince(UnixTime)
    /// No payload of more bytes.
    case payloads(upTo: Int64)
  }
}

extension BlobStore.TrimGoal {
  /// Whether it is about all records together, so that only their sum tells which have to go.
  var isAmount: Bool { byteLimit != nil || recordLimit != nil }

  /// Bytes that may stay; nil if any may.
  var byteLimit: Int64? {
    guard case .byteCount(let limit) = self else { return nil }
    return max(limit, 0)
  }

  /// Records that may stay; nil if any number may.
  var recordLimit: Int64? {
    guard case .recordCount(let limit) = self else { return nil }
    return max(limit, 0)
  }

  /// Whether a record exceeds the goal by itself, and must go unless it is locked.
  func excludes(_ header: RecordHeader) -> Bool {
    switch self {
    case .byteCount, .recordCount: false
    case .updatedSince(let time): header.lastUpdate < time
    case .payloads(let limit): header.payloadSize > UInt64(max(limit, 0))
    }
  }
}

extension BlobStore {
  /// When a scheduled collection makes its passes.
  public struct CollectionTiming: Hashable, Sendable {
    /// From the end of one pass to the start of the next. Less than `minimumInterval` is raised to it, with a logged
    /// warning. The default is SPTPersistentCache's.
    public var interval: Duration = .seconds(363)
    /// The most that chance adds to each interval; nil for a tenth of it.
    ///
    /// So programs that were started together do not stay in step. Below zero counts as zero.
    public var jitter: Duration?
    /// From the start of the schedule to its first pass.
    public var firstDelay: Duration = .zero

    /// The shortest interval: SPTPersistentCache's.
    public static let minimumInterval: Duration = .seconds(60)

    public init(interval: Duration = .seconds(363), jitter: Duration? = nil, firstDelay: Duration = .zero) {
      self.interval = interval
      self.jitter = jitter
      self.firstDelay = firstDelay
    }

    /// The interval that is kept.
    public var effectiveInterval: Duration { max(interval, Self.minimumInterval) }

    var effectiveJitter: Duration { max(jitter ?? effectiveInterval / 10, .zero) }

    package func warnIfRaised(_ logger: Logger) {
      guard effectiveInterval != interval else { return }
      logger.warning("a collection interval of \(interval) is raised to \(effectiveInterval)")
    }
  }
}
