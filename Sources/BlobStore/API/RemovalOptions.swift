extension BlobStore {
  /// How a wipe is to be made.
  public struct RemovalOptions: Sendable {
    /// Called with how far the wipe has come, on the thread that makes it: every `progressStep` files, and at its end.
    public var progress: (@Sendable (RemovalProgress) -> Void)?
    /// Asked after each file; once it answers true, the wipe ends.
    public var isStopped: (@Sendable () -> Bool)?

    /// Files between two calls of `progress`: some milliseconds' worth.
    public static let progressStep = 256

    public init() {}
  }
}

extension BlobStore {
  /// How far a wipe has come.
  public struct RemovalProgress: Hashable, Sendable {
    /// Files that were looked at, whether or not they had to go.
    public var examined: Int64 = 0
    /// How many record files there were at the start, by the directory's counters; nil where they are not known.
    public var expected: Int64?
    /// What was removed so far.
    public var removed = RemovalReport()

    public init() {}
  }
}
