public import BlobRecord
public import Logging
internal import Posix

extension BlobStore {
  /// The configuration of a store, with the default values of SPTPersistentCache if it has an equivalent.
  public struct Configuration: Sendable {
    /// The rules by which keys become file names and subdirectories.
    ///
    /// All programs that share a directory must agree on the naming, and on the arrangement if they specify one.
    public var layout = Layout()
    /// The header format that stores write, whereas loads read both formats.
    public var format = RecordFormat.checksummed
    public var limits = Limits()
    public var expiry = Expiry()
    public var access = Access()
    public var durability = Durability.automatic
    /// A value that specifies whether stores overwrite the files of dead records instead of creating new ones.
    ///
    /// Removed blobs then stay on the medium, in `.recycled` below the root, until a store overwrites them or a
    /// collection empties it. `purge` removes the bytes immediately.
    public var recycling = Recycling.automatic
    /// The packing of small records into shared files called packs.
    ///
    /// The default, `nil`, follows the directory's settings, and packs nothing if they do not mention packing. A
    /// value set here overrides the directory's settings for the stores of this program. In a new directory, the
    /// first store also records it in the settings, so that programs without such a value follow it. Directories that
    /// SPTPersistentCache may share (`RecordNaming.verbatim`, or the `reference` format) are never packed.
    public var packing: Packing?
    /// The method by which loads read packed records.
    public var packReads = PackReads.byCalls
    /// The least number of records for which a new pack index has room (by default 1 MiB). The index grows on demand.
    package var leastPackIndexEntryCount = 60_000
    /// The number of bytes of a chunk that are filled, or `nil` for all. With a small value, chunks are reused earlier.
    package var packChunkByteCount: Int?
    /// The number of new packed bytes, which recovery walks in 0.1 s, after which a collection writes a checkpoint.
    package var leastCheckpointByteCount = 64 << 20
    /// The treatment of a damaged file that a load has found, in addition to throwing an error.
    public var damagePolicy = DamagePolicy.report
    public var logger = Logger(label: "BlobStore")
    /// The clock for expiration, by default the system clock at the kernel's last tick, a few milliseconds ago.
    public var now: @Sendable () -> UnixTime = { UnixTime(seconds: SystemClock.unixSeconds()) }

    public init() {}
  }
}

extension BlobStore.Configuration {
  /// The limits of a directory.
  public struct Limits: Hashable, Sendable {
    /// The most bytes, including headers, that a collection leaves, or `nil` for no limit.
    public var size: Int64?
    /// The most records, including damaged ones, that a collection leaves, or `nil` for no limit.
    public var count: Int64?
    /// The largest payload, in bytes, that is stored or loaded.
    public var payload: Int64 = 1 << 30
    /// The bytes of the volume that a collection with a size limit leaves free, or `nil` for a tenth, at most 4 GiB.
    ///
    /// Stores check it too, and start a collection if `collectsOnStore` is `true`.
    public var freeSpaceFloor: Int64?
    /// The share of its limits that a collection leaves when they are exceeded, above 0 and at most 1.
    ///
    /// The lower the share, the later the next collection is needed.
    public var evictionTarget = 0.9
    /// The order in which records are evicted when a limit is exceeded.
    public var eviction = BlobStore.Eviction.frequency
    /// A Boolean value that indicates whether a store that exceeds a limit, or finds the volume full, starts a
    /// collection in a separate thread.
    ///
    /// If `false`, only the collections that a program starts enforce the limits.
    public var collectsOnStore = true
  }

  /// The expiration of records.
  public struct Expiry: Hashable, Sendable {
    /// The time to live of records that are stored without one, counted from their last access.
    public var defaultTimeToLive: Duration = .seconds(600)

    /// The shortest default time to live, as in SPTPersistentCache, to which others are raised with a logged warning.
    public static let minimumDefault: Duration = .seconds(60)
  }

  /// The way in which a store shares its directory with other processes.
  public struct Access: Hashable, Sendable {
    public var sharing = BlobStore.Sharing.shared
    /// The most time that a change, but never a load, waits for other changes of the key before it fails with `busy`.
    public var lockTimeout: Duration = .seconds(10)
    /// A Boolean value that indicates whether the first store creates a missing directory. Otherwise operations fail.
    public var createsDirectory = true
    /// A Boolean value that indicates whether the directory may be writable for every user without a sticky bit.
    ///
    /// In such a directory, any user could plant or remove blobs, or end the program by truncating its control file.
    public var allowsWorldWritable = false
    /// A Boolean value that indicates whether the first change records this configuration's default expiration, size
    /// limit, and layout in the directory, where `init(following:)` reads them.
    public var leavesHint = true
    /// A Boolean value that indicates whether collections are added to the directory's statistics.
    ///
    /// The statistics show collection times to other processes, so set `false` for a store with a different clock.
    public var recordsCollections = true
  }
}

extension BlobStore {
  /// The processes that use the directory.
  public enum Sharing: Sendable {
    /// Any number of processes, including the command-line tool.
    case shared
    /// Only this store, which takes no file locks, so changes by another process break its guarantees.
    case exclusive
  }

  /// The header fields that a store writes in addition to the fields of SPTPersistentCache.
  public enum RecordFormat: Sendable {
    /// The payload's checksum and the key's digest (flags 0x2 and 0x4), readable for SPTPersistentCache too.
    case checksummed
    /// Exactly the header of SPTPersistentCache, with flags and reserved fields 0, so payload damage is not detected.
    case reference
  }

  /// The treatment of a damaged file.
  public enum DamagePolicy: String, CaseIterable, Sendable {
    /// The file stays in its place.
    case report
    case remove
    /// The file is moved to `.quarantine` below the root, where new files replace the oldest ones.
    case quarantine
  }
}

extension BlobStore.Configuration {
  /// The rules by which a store names and places its records.
  public struct Layout: Hashable, Sendable {
    /// The rule by which keys become file names.
    public var naming = RecordNaming.encoded
    /// The arrangement of records in subdirectories, or `nil` for the directory's own arrangement.
    ///
    /// The settings specify the directory's own arrangement, or otherwise the program that changed it last. Existing
    /// records without such information are arranged by `prefix`. A new directory gets `adaptive`, which is recorded in
    /// its settings. It gets `prefix` for SPTPersistentCache, if names are `verbatim` or the format is `reference`, and
    /// if several users who do not trust each other create files in it.
    public var arrangement: RecordArrangement?

    public init(naming: RecordNaming = .encoded, arrangement: RecordArrangement? = nil) {
      self.naming = naming
      self.arrangement = arrangement
    }

    /// Creates a layout that does not depend on the directory's own arrangement.
    public init(_ layout: RecordLayout) { self.init(naming: layout.naming, arrangement: layout.arrangement) }

    /// A Boolean value that indicates whether subdirectories are used (`useDirectorySeparation` of
    /// SPTPersistentCache).
    ///
    /// Setting `true` changes a flat arrangement to `prefix`, and has no effect on others.
    public var separatesDirectories: Bool {
      get { arrangement != .flat }
      set {
        if newValue != separatesDirectories { arrangement = newValue ? .prefix : .flat }
      }
    }
  }

  package var arrangementOfNewDirectories: RecordArrangement {
    layout.arrangement ?? (hasOwnFormat ? .adaptive : .prefix)
  }
}

extension BlobStore.Configuration.Layout {
  mutating func follow(_ settings: BlobStore.DirectorySettings) {
    if let naming = settings.naming { self.naming = naming }
    if let arrangement = settings.arrangement { self.arrangement = arrangement }
  }

  /// The layout in the words of the settings file.
  var words: String { [naming.rawValue, arrangement?.rawValue].compactMap { $0 }.joined(separator: ", ") }
}

extension BlobStore.Configuration {
  /// The configuration for a directory that SPTPersistentCache reads too, with keys as file names, in subdirectories.
  ///
  /// Keys with `/`, NUL, or a leading `.`, and keys of more than 255 bytes have no name in it. For a cache without
  /// `useDirectorySeparation`, set `layout.separatesDirectories` to `false`. In any other layout, each library finds
  /// only some of the other's records.
  public static var sptPersistentCache: BlobStore.Configuration {
    var configuration = BlobStore.Configuration()
    configuration.layout = Layout(naming: .verbatim, arrangement: .prefix)
    return configuration
  }
}

extension BlobStore {
  /// The order in which records are evicted when a limit is exceeded.
  public enum Eviction: String, CaseIterable, Sendable {
    /// The records that were used least, relative to the time since their last use, are evicted first.
    ///
    /// The processes of a directory count uses in shared memory, without which the order is `oldest`.
    case frequency
    /// The records with the oldest update time are evicted first, as in SPTPersistentCache.
    case oldest
  }

  /// The treatment of files whose records are removed, replaced, expired, or evicted.
  public enum Recycling: Hashable, Sendable {
    /// The files are unlinked.
    case off
    /// Later stores overwrite the files, of which at most 4096, and 16 MiB, are kept.
    ///
    /// Under a size limit, a hundredth of it is kept if that is more than 16 MiB. The files never exceed a tenth of
    /// the limit, nor the room that `limits.evictionTarget` leaves. Nothing is kept if the platform or the file
    /// system has no leases. When a reader opens a file that is being overwritten, the kernel sends the overwriting
    /// process SIGURG, which is ignored by default.
    case automatic
    /// Later stores overwrite the files, which are kept within these bounds.
    case bounded(bytes: Int64, files: Int64)
  }
}

extension Duration {
  /// The number of whole seconds, rounded up, and at most `Int64.max`.
  var secondsRoundedUp: Int64 {
    // `components` traps if the number of seconds exceeds 64 bits.
    guard self < .seconds(Int64.max) else { return .max }
    let (seconds, attoseconds) = components
    return attoseconds > 0 ? seconds + 1 : seconds
  }
}

/// Returns the `ttl` field for a time to live, or 0 for `nil`. Throws `invalidTimeToLive` if it is not above zero.
func storedTimeToLive(_ timeToLive: Duration?) throws(BlobStoreError) -> UInt64 {
  guard let timeToLive else { return 0 }
  guard timeToLive > .zero else {
    throw BlobStoreError(.invalidTimeToLive, "a time to live of \(timeToLive) is not above zero")
  }
  return UInt64(timeToLive.secondsRoundedUp)
}

extension Duration {
  /// The time to live of a blob that does not expire, so only a removal or a limit removes it.
  public static var never: Duration { .seconds(Int64.max) }
}
