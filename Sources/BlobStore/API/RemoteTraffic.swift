extension BlobStore {
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
