extension BlobStore {
  /// Which records a wipe removes, at any age.
  public enum RemovalScope: String, CaseIterable, Sendable {
    /// All records, damaged and quarantined files, and what dead writers have left.
    case all
    case locked
    case unlocked
  }

  /// What a wipe removed.
  public struct RemovalReport: Hashable, Sendable {
    public var files: Int64 = 0
    public var bytes: Int64 = 0
    /// Whether it was stopped before it had seen everything.
    public var wasStopped = false

    public init() {}
  }

  /// How a wipe is made.
  public struct RemovalOptions: Sendable {
    /// Receives the wipe's progress every `progressStep` files, and at its end.
    ///
    /// The call comes on the thread that makes the wipe.
    public var progress: (@Sendable (RemovalProgress) -> Void)?
    /// Asked after each file; once it answers true, the wipe ends.
    public var isStopped: (@Sendable () -> Bool)?

    /// Files between two calls of `progress`: some milliseconds' worth.
    public static let progressStep = 256

    public init() {}
  }

  /// How far a wipe has come.
  public struct RemovalProgress: Hashable, Sendable {
    /// Files that were looked at, whether or not they had to go.
    public var examined: Int64 = 0
    /// Record files at the start, by the directory's counters; nil if those are unknown.
    public var expected: Int64?
    /// The files removed so far.
    public var removed = RemovalReport()

    public init() {}
  }

  /// What has moved into packs, or out of them, and what stays where it was.
  public struct RelocationReport: Hashable, Sendable {
    public var moved: Int64 = 0
    /// Bytes of the records that were moved, by the sizes that they have as files.
    public var movedBytes: Int64 = 0
    /// Records that no pack takes: too large, or with a header that a pack cannot say.
    public var unsuited: Int64 = 0
    /// Expired records, which are left to a collection.
    public var expired: Int64 = 0
    /// Damaged ones, which are left to a collection and to `verify`. A stream that is not complete is one of them.
    public var damaged: Int64 = 0
    /// Records that could not be read or moved: each was logged.
    public var failed: Int64 = 0

    public init() {}
  }
}
