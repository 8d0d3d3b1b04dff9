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

  /// What the processes of a directory have asked, together, of a tier that other machines share.
  public struct RemoteTraffic: Hashable, Sendable {
    /// Loads that the tier answered with a blob.
    public var hits: Int64 = 0
    /// Loads that it answered with nothing, or with an expired record.
    public var misses: Int64 = 0
    /// Requests that failed, of every kind.
    public var failures: Int64 = 0
    /// Stores that have reached it.
    public var stores: Int64 = 0
    /// Removals that have reached it.
    public var removals: Int64 = 0
    /// Stores and removals that were given up.
    public var dropped: Int64 = 0
    /// Bytes of the payloads that were loaded from it.
    public var bytesLoaded: Int64 = 0
    /// Bytes of the payloads that were stored there.
    public var bytesStored: Int64 = 0

    public init() {}
  }
}

extension BlobStore.RemoteTraffic {
  /// The counts in the order of the control file.
  static let counts: [any WritableKeyPath<Self, Int64> & Sendable] = [
    \.hits, \.misses, \.failures, \.stores, \.removals, \.dropped, \.bytesLoaded, \.bytesStored,
  ]

  /// What has come since an earlier look.
  package func since(_ earlier: Self) -> Self {
    var news = self
    for count in Self.counts { news[keyPath: count] -= earlier[keyPath: count] }
    return news
  }
}
