extension BlobStore {
  /// The records that a wipe removes, regardless of their age.
  public enum RemovalScope: String, CaseIterable, Sendable {
    /// All records, damaged and quarantined files, and the leftovers of dead writers.
    case all
    case locked
    case unlocked
  }

  /// The files that a wipe removed.
  public struct RemovalReport: Hashable, Sendable {
    public var files: Int64 = 0
    public var bytes: Int64 = 0
    /// A Boolean value that indicates whether the wipe was stopped before it had examined everything.
    public var wasStopped = false

    public init() {}
  }

  /// The options of a wipe.
  public struct RemovalOptions: Sendable {
    /// A closure that receives the progress every `progressStep` files and at the end, on the wipe's thread.
    public var progress: (@Sendable (RemovalProgress) -> Void)?
    /// A closure that is called after each file, and ends the wipe by returning `true`.
    public var isStopped: (@Sendable () -> Bool)?

    /// The number of files between two calls of `progress`. Their removal takes a few milliseconds.
    public static let progressStep = 256

    public init() {}
  }

  /// The progress of a wipe.
  public struct RemovalProgress: Hashable, Sendable {
    /// The number of examined files, including files that stay.
    public var examined: Int64 = 0
    /// The number of record files at the start according to the directory's counters, or `nil` if they are unknown.
    public var expected: Int64?
    /// The files that have been removed so far.
    public var removed = RemovalReport()

    public init() {}
  }

  /// The records that were moved into or out of packs, and the records that stayed in place.
  public struct RelocationReport: Hashable, Sendable {
    public var moved: Int64 = 0
    /// The number of bytes of the moved records, counted by their sizes as files.
    public var movedBytes: Int64 = 0
    /// The number of records that are too large for a pack, or whose header a pack cannot represent.
    public var unsuited: Int64 = 0
    /// The number of expired records, which are left to a collection.
    public var expired: Int64 = 0
    /// The number of damaged records and incomplete streams, which are left to a collection and to `verify`.
    public var damaged: Int64 = 0
    /// The number of records that could not be read or moved, each of which was logged.
    public var failed: Int64 = 0

    public init() {}
  }
}
