public import BlobRecord

extension BlobStore {
  /// A whole collection of late, and what has happened since the one before it.
  public struct RecentPass: Hashable, Sendable {
    /// When it ended.
    public var time: UnixTime
    /// How long it took.
    public var seconds: Double
    /// Records that all collections have removed since the pass before, because their time was over.
    public var expired: Int64
    /// Those that they have removed to keep the limits.
    public var evicted: Int64
    public var bytesFreed: Int64
    /// Loads that were answered since the pass before.
    public var hits: Int64
    public var misses: Int64
    public var stores: Int64

    /// Hits of all loads since the pass before, from 0 to 1; nil without loads.
    public var hitRatio: Double? {
      let loads = hits.saturatingAdding(misses)
      return loads > 0 ? Double(hits) / Double(loads) : nil
    }
  }
}
