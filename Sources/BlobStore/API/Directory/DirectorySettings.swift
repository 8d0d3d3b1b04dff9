public import BlobRecord

extension BlobStore {
  /// The settings of a directory, for all programs and tools that follow them.
  ///
  /// The settings are stored in `.blobcache.conf` at the root, independently of programs, blobs, and the control
  /// file. A property that is `nil` is not set there.
  public struct DirectorySettings: Hashable, Sendable {
    /// The time to live of blobs without one, counted from their last access, which is at least a minute or `.never`.
    public var defaultTimeToLive: Duration?
    /// The most bytes that a collection leaves.
    public var sizeLimit: Limit?
    /// The most records that a collection leaves.
    public var countLimit: Limit?
    /// The number of bytes of the volume that a collection with a size limit leaves free.
    public var freeSpaceFloor: Int64?
    /// The order in which records are evicted when a limit is exceeded.
    public var eviction: Eviction?
    /// The rule by which keys become file names.
    public var naming: RecordNaming?
    /// The arrangement of records in subdirectories.
    public var arrangement: RecordArrangement?
    /// The packing of small records into shared files.
    public var packing: Packing?

    public init() {}
  }
}

extension BlobStore.DirectorySettings {
  /// A limit, or its absence.
  public enum Limit: Hashable, Sendable {
    case unlimited
    /// A limit above zero.
    case atMost(Int64)

    /// The limit, or `nil` for no limit.
    public var value: Int64? { if case .atMost(let value) = self { value } else { nil } }

    /// Creates a limit, or no limit from `nil`.
    public init(_ value: Int64?) { self = value.map { .atMost($0) } ?? .unlimited }
  }

  /// A Boolean value that indicates whether no setting has a value.
  public var isEmpty: Bool { self == Self() }

  /// Creates the settings that are equivalent to a program's configuration.
  package init(_ configuration: BlobStore.Configuration) {
    defaultTimeToLive = max(configuration.expiry.defaultTimeToLive, BlobStore.Configuration.Expiry.minimumDefault)
    sizeLimit = Limit(configuration.limits.size)
    countLimit = Limit(configuration.limits.count)
    freeSpaceFloor = configuration.limits.freeSpaceFloor
    eviction = configuration.limits.eviction
    naming = configuration.layout.naming
    arrangement = configuration.layout.arrangement
    packing = configuration.packing
  }
}

extension BlobStore.Configuration {
  mutating func follow(_ settings: BlobStore.DirectorySettings) {
    if let timeToLive = settings.defaultTimeToLive { expiry.defaultTimeToLive = timeToLive }
    if let limit = settings.sizeLimit { limits.size = limit.value }
    if let limit = settings.countLimit { limits.count = limit.value }
    if let floor = settings.freeSpaceFloor { limits.freeSpaceFloor = floor }
    if let eviction = settings.eviction { limits.eviction = eviction }
    if let packing = settings.packing { self.packing = packing }
    layout.follow(settings)
  }
}

extension RecordLayout {
  mutating func follow(_ settings: BlobStore.DirectorySettings) {
    if let naming = settings.naming { self.naming = naming }
    if let arrangement = settings.arrangement { self.arrangement = arrangement }
  }
}
