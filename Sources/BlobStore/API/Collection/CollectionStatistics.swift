public import BlobRecord

extension BlobStore {
  /// The work of all collections of a directory, by all processes, since its control file was made.
  public struct CollectionStatistics: Hashable, Sendable {
    /// A collection of the past.
    public struct Pass: Hashable, Sendable {
      /// When it ended.
      public var time: UnixTime
      /// The process that made it. It may have ended, and another may have its number.
      public var process: Int32
      public var seconds: Double
    }

    /// Collections that looked at the whole directory, or at as much as their time allowed.
    ///
    /// Stopped ones do not count.
    public var passes: Int64 = 0
    /// Collections that only evicted records, known from an earlier one, to keep the limits.
    public var evictions: Int64 = 0
    public var expired: Int64 = 0
    public var evicted: Int64 = 0
    /// Of those, records that went because there were more bytes than the size limit allows.
    public var evictedForSizeLimit: Int64 = 0
    /// Of those, records that went because there were more than the count limit allows.
    public var evictedForCountLimit: Int64 = 0
    /// Of those, records that went because the volume had too little room left.
    public var evictedForFreeSpace: Int64 = 0
    /// Of those, records that went for the goal of a trim.
    public var evictedByTrims: Int64 = 0
    /// Seconds from the last update of evicted records to their end, on average; nil if none is known.
    public var meanEvictedAge: Int64?
    public var damaged: Int64 = 0
    public var temporary: Int64 = 0
    public var bytesFreed: Int64 = 0
    /// How long they took together.
    public var seconds: Double = 0
    /// The last of `passes`; nil before the first.
    ///
    /// It is also nil if its time lies in the future of this store's clock.
    public var lastPass: Pass?

    public init() {}
  }
}
