extension BlobStore {
  /// Which records a wipe removes, at any age.
  public enum RemovalScope: String, CaseIterable, Sendable {
    /// All records, damaged and quarantined files, and what dead writers have left.
    case all
    case locked
    case unlocked
  }
}

extension BlobStore {
  /// What a wipe removed.
  public struct RemovalReport: Hashable, Sendable {
    public var files: Int64 = 0
    public var bytes: Int64 = 0
    /// Whether it was stopped before it had seen everything.
    public var wasStopped = false

    public init() {}
  }
}
