public import BlobRecord

extension BlobStore {
  /// The loads and stores of a directory, by all its processes together.
  public struct Traffic: Hashable, Sendable {
    /// When counting began; nil before the first store.
    public var since: UnixTime?
    /// Loads that were answered, from memory or from disk.
    public var hits: Int64 = 0
    /// Those of them that a `BlobCache` answered from memory.
    public var memoryHits: Int64 = 0
    /// Loads that found nothing, or an expired record.
    public var misses: Int64 = 0
    /// Bytes of the payloads that were loaded.
    public var bytesServed: Int64 = 0
    public var stores: Int64 = 0
    /// Bytes of the payloads that were stored.
    public var bytesStored: Int64 = 0
    /// What was asked of a tier behind the directory.
    public var remote = RemoteTraffic()

    public init() {}

    /// Hits of all loads, from 0 to 1; nil without loads.
    public var hitRatio: Double? {
      let loads = hits.saturatingAdding(misses)
      return loads > 0 ? Double(hits) / Double(loads) : nil
    }
  }
}
