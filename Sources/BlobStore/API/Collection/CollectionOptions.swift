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
}

extension BlobStore {
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
}
