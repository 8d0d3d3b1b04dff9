extension BlobStore {
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
}

extension BlobStore {
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
}
