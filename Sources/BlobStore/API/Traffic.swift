public import BlobRecord

extension BlobStore {
  /// The loads and stores of a directory, by all its processes together.
  public struct Traffic: Hashable, Sendable {
    /// The time at which counting began, or `nil` before the first store.
    public var since: UnixTime?
    /// The number of loads that found a record in memory or on disk.
    public var hits: Int64 = 0
    /// The number of `hits` that a `BlobCache` served from memory.
    public var memoryHits: Int64 = 0
    /// The number of loads that found no record, or an expired one.
    public var misses: Int64 = 0
    /// The number of bytes of the loaded payloads.
    public var bytesServed: Int64 = 0
    public var stores: Int64 = 0
    /// The number of bytes of the stored payloads.
    public var bytesStored: Int64 = 0
    /// The requests to a remote tier behind the directory.
    public var remote = RemoteTraffic()

    public init() {}

    /// The share of hits in all loads, from 0 to 1, or `nil` without loads.
    public var hitRatio: Double? {
      let loads = hits.saturatingAdding(misses)
      return loads > 0 ? Double(hits) / Double(loads) : nil
    }
  }

  /// The requests of all processes of a directory, together, to a tier that other machines share.
  public struct RemoteTraffic: Hashable, Sendable {
    /// The number of loads for which the tier returned a blob.
    public var hits: Int64 = 0
    /// The number of loads for which the tier returned no record, or an expired one.
    public var misses: Int64 = 0
    /// The number of failed requests of all kinds.
    public var failures: Int64 = 0
    /// The number of stores that the tier has received.
    public var stores: Int64 = 0
    /// The number of removals that the tier has received.
    public var removals: Int64 = 0
    /// The number of stores and removals that were dropped.
    public var dropped: Int64 = 0
    /// The number of bytes of the payloads that were loaded from the tier.
    public var bytesLoaded: Int64 = 0
    /// The number of bytes of the payloads that were stored in the tier.
    public var bytesStored: Int64 = 0

    public init() {}
  }
}

extension BlobStore.RemoteTraffic {
  /// The counts in the order of the control file.
  static let counts: [any WritableKeyPath<Self, Int64> & Sendable] = [
    \.hits, \.misses, \.failures, \.stores, \.removals, \.dropped, \.bytesLoaded, \.bytesStored,
  ]

  /// Returns the difference to an earlier value.
  package func since(_ earlier: Self) -> Self {
    var news = self
    for count in Self.counts { news[keyPath: count] -= earlier[keyPath: count] }
    return news
  }
}
