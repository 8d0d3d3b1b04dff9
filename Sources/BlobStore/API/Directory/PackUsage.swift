extension BlobStore {
  /// What the packs of a directory take, as their chunk tables have it.
  public struct PackUsage: Hashable, Sendable {
    /// How many packs there are.
    public var packs: Int64 = 0
    /// Bytes that their files take on the medium, heads and free chunks with blocks included.
    public var mediumBytes: Int64 = 0
    /// Records that are current, about.
    public var records: Int64 = 0
    /// Bytes that those take in their chunks, about.
    public var liveBytes: Int64 = 0
    /// Bytes given out that no current record takes, about: of those that were replaced or removed. Collections make them
    /// free again.
    public var deadBytes: Int64 = 0

    public init() {}
  }
}
