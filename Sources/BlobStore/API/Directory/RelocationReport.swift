extension BlobStore {
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
