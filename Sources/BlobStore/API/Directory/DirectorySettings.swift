public import BlobRecord

extension BlobStore {
  /// The settings that a directory keeps, for every program and tool that follows it.
  ///
  /// The settings lie in `.blobcache.conf` at the root, and outlive programs, blobs and the control file. A value of
  /// nil is not set there.
  public struct DirectorySettings: Hashable, Sendable {
    /// How long blobs without a time to live last after their last access: a minute at least, or `.never`.
    public var defaultTimeToLive: Duration?
    /// Bytes that a collection leaves at the most.
    public var sizeLimit: Limit?
    /// Records that a collection leaves at the most.
    public var countLimit: Limit?
    /// Bytes of the volume that a collection with a size limit leaves free.
    public var freeSpaceFloor: Int64?
    /// Which records go first where a limit is exceeded.
    public var eviction: Eviction?
    /// How keys become file names.
    public var naming: RecordNaming?
    /// Which subdirectories records lie in.
    public var arrangement: RecordArrangement?
    /// Which records lie many to a file.
    public var packing: Packing?

    public init() {}
  }
}

extension BlobStore.DirectorySettings {
  /// A limit, or its absence.
  public enum Limit: Hashable, Sendable {
    case unlimited
    /// Above zero.
    case atMost(Int64)

    /// nil for no limit.
    public var value: Int64? { if case .atMost(let value) = self { value } else { nil } }

    /// - Parameter value: nil for no limit.
    public init(_ value: Int64?) { self = value.map { .atMost($0) } ?? .unlimited }
  }

  /// Whether nothing is said.
  public var isEmpty: Bool { self == Self() }

  /// The settings that a program's configuration comes to.
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

  /// The values in the hint of a directory's program.
  package init(hint: DirectoryHint) {
    self.init()
    defaultTimeToLive = .seconds(hint.defaultExpiration)
    sizeLimit = Limit(hint.sizeLimit)
    naming = hint.layout.naming
    arrangement = hint.layout.arrangement
  }
}

extension BlobStore.Configuration {
  /// Takes over what a directory says of itself.
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
  /// Takes over what a directory says of where its records lie.
  mutating func follow(_ settings: BlobStore.DirectorySettings) {
    if let naming = settings.naming { self.naming = naming }
    if let arrangement = settings.arrangement { self.arrangement = arrangement }
  }
}

/// How the last program that changed a directory sees it: what `Configuration(following:)` goes by.
package struct DirectoryHint: Hashable, Sendable {
  /// Seconds.
  package var defaultExpiration: Int64
  /// Bytes; nil for no limit.
  package var sizeLimit: Int64?
  package var layout: RecordLayout

  package init(defaultExpiration: Int64, sizeLimit: Int64? = nil, layout: RecordLayout = RecordLayout()) {
    self.defaultExpiration = defaultExpiration
    self.sizeLimit = sizeLimit
    self.layout = layout
  }
}
