public import BlobRecord
public import Logging
internal import Posix

extension BlobStore {
  /// How a store treats its directory. Everything has the default of SPTPersistentCache where that has one.
  public struct Configuration: Sendable {
    /// How keys become file names, and which subdirectories they lie in. All programs that share a directory must agree
    /// on the naming, and on an arrangement where they ask for one.
    public var layout = Layout()
    /// The header that stores write; loads read both.
    public var format = RecordFormat.checksummed
    public var limits = Limits()
    public var expiry = Expiry()
    public var access = Access()
    public var durability = Durability.automatic
    /// Whether stores overwrite the files of dead records instead of making new ones. Removed blobs then stay on the
    /// medium, in `.recycled` below the root, until a store overwrites them or a collection empties it. `purge` removes
    /// the bytes at once.
    public var recycling = Recycling.automatic
    /// Which small records share files called packs. Default: `nil`, which follows the directory's settings and packs nothing if
    /// they do not mention packing.
    ///
    /// A value set here overrides the directory's settings for the stores of this program. In a new directory, the first store
    /// also records it in the settings, so that programs without a value of their own follow it. Directories that
    /// SPTPersistentCache may share (`RecordNaming.verbatim`, or the `reference` format) are never packed.
    public var packing: Packing?
    /// How loads read packed records.
    public var packReads = PackReads.byCalls
    /// For how many records a new index of the packs has room: a mebibyte. It grows with more.
    package var leastPackIndexEntryCount = 60_000
    /// Bytes of a chunk of a pack that are filled; nil for all. With few, chunks are used again soon.
    package var packChunkByteCount: Int?
    /// So many bytes of packed records have to come before a collection makes another checkpoint. A boot walks them in a tenth of
    /// a second.
    package var leastCheckpointByteCount = 64 << 20
    /// The fate of a damaged file that a load has met. The load throws too.
    public var damagePolicy = DamagePolicy.report
    public var logger = Logger(label: "BlobStore")
    /// The time, for everything that expires: the system's, as of the kernel's last tick, some milliseconds ago at most.
    public var now: @Sendable () -> UnixTime = { UnixTime(seconds: SystemClock.unixSeconds()) }

    public init() {}
  }
}

extension BlobStore.Configuration {
  /// How much a directory holds.
  public struct Limits: Hashable, Sendable {
    /// Bytes, headers included, that a collection leaves at the most; nil for no limit.
    public var size: Int64?
    /// Records that a collection leaves at the most, damaged ones among them; nil for no limit.
    public var count: Int64?
    /// The largest payload, in bytes, that is stored or loaded.
    public var payload: Int64 = 1 << 30
    /// Bytes of the volume that a collection with a size limit leaves free; nil for a tenth of the volume, 4 GiB at most.
    /// Stores look after it too, and start a collection where `collectsOnStore`.
    public var freeSpaceFloor: Int64?
    /// The share of its limits that a collection leaves when they are exceeded, above 0 and up to 1. With less, the next
    /// collection is needed later.
    public var evictionTarget = 0.9
    /// Which records go first where a limit is exceeded.
    public var eviction = BlobStore.Eviction.frequency
    /// Whether a store that exceeds a limit, or finds the volume full, starts a collection on a thread of its own. If
    /// false, only the collections that a program makes keep the limits.
    public var collectsOnStore = true
  }

  /// How long records live.
  public struct Expiry: Hashable, Sendable {
    /// The time to live of records stored without one, counted from their last access. A value under
    /// `minimumDefault` is raised to it, with a logged warning.
    public var defaultTimeToLive: Duration = .seconds(600)

    /// The shortest default: SPTPersistentCache's floor.
    public static let minimumDefault: Duration = .seconds(60)
  }

  /// How a store shares its directory with other processes.
  public struct Access: Hashable, Sendable {
    public var sharing = BlobStore.Sharing.shared
    /// How long a change waits for others that are changing the same key before it is `busy`. Loads never wait.
    public var lockTimeout: Duration = .seconds(10)
    /// Whether the first store makes the directory. If false, an absent directory is an error of every operation.
    public var createsDirectory = true
    /// Whether to use a directory that every user may write to and that has no sticky bit. Any user could plant or
    /// remove blobs there, or end the program by truncating the control file that it maps.
    public var allowsWorldWritable = false
    /// Whether the first change leaves this configuration's default expiration, size limit and layout in the directory,
    /// for `init(following:)` to go by.
    public var leavesHint = true
    /// Whether collections are added to the directory's statistics, which tell other processes their times. Set it to
    /// false for a store whose clock differs from the others'.
    public var recordsCollections = true
  }
}

extension BlobStore {
  /// Which other processes use the directory.
  public enum Sharing: Sendable {
    /// Any number of processes, the tool among them.
    case shared
    /// This store alone: changes take no file locks. Another process that changes something breaks the promises.
    case exclusive
  }

  /// The header fields that a store writes beyond SPTPersistentCache's.
  public enum RecordFormat: Sendable {
    /// The payload's checksum and the key's digest: flags 0x2 and 0x4. SPTPersistentCache reads such files too.
    case checksummed
    /// Exactly SPTPersistentCache's header: flags 0, reserved fields 0. Damage to the payload goes unnoticed.
    case reference
  }

  /// The fate of a damaged file.
  public enum DamagePolicy: String, CaseIterable, Sendable {
    /// Leave it where it is.
    case report
    case remove
    /// Move it to `.quarantine` below the root, where the oldest files give way to new ones.
    case quarantine
  }
}

extension BlobStore.Configuration {
  /// Where a store puts its records, and by which names.
  public struct Layout: Hashable, Sendable {
    /// How keys become file names.
    public var naming = RecordNaming.encoded
    /// Which subdirectories records lie in; nil for the directory's own arrangement.
    ///
    /// A directory's own is what its settings say, else the program that changed it last. Where neither says anything,
    /// records that are there lie by `prefix`. A new directory becomes `spread`, and says so in its settings. It becomes
    /// `prefix` where names are `verbatim` or the format is `reference`, for SPTPersistentCache, and where several users
    /// make files who do not trust each other.
    public var arrangement: RecordArrangement?

    public init(naming: RecordNaming = .encoded, arrangement: RecordArrangement? = nil) {
      self.naming = naming
      self.arrangement = arrangement
    }

    /// A layout that leaves nothing to the directory.
    public init(_ layout: RecordLayout) { self.init(naming: layout.naming, arrangement: layout.arrangement) }

    /// Whether records lie in subdirectories: `useDirectorySeparation` of SPTPersistentCache.
    ///
    /// To set it changes a flat arrangement to the one by prefix, and no other.
    public var separatesDirectories: Bool {
      get { arrangement != .flat }
      set {
        if newValue != separatesDirectories { arrangement = newValue ? .prefix : .flat }
      }
    }
  }

  /// The arrangement of a directory that this configuration's store makes.
  package var arrangementOfNewDirectories: RecordArrangement {
    layout.arrangement ?? (hasOwnFormat ? .spread : .prefix)
  }
}

extension BlobStore.Configuration.Layout {
  /// Takes over what a directory says of where its records lie.
  mutating func follow(_ settings: BlobStore.DirectorySettings) {
    if let naming = settings.naming { self.naming = naming }
    if let arrangement = settings.arrangement { self.arrangement = arrangement }
  }

  /// As the settings file has it.
  var words: String { [naming.rawValue, arrangement?.rawValue].compactMap { $0 }.joined(separator: ", ") }
}

extension BlobStore.Configuration {
  /// For a directory that SPTPersistentCache reads too: keys as they are as names, in subdirectories.
  ///
  /// Keys with `/`, NUL or a leading `.` have no name there, nor have keys of more than 255 bytes. For a cache without
  /// `useDirectorySeparation`, set `layout.separatesDirectories` to false. In any other layout, each library finds only
  /// some of the other's records.
  public static var sptPersistentCache: BlobStore.Configuration {
    var configuration = BlobStore.Configuration()
    configuration.layout = Layout(naming: .verbatim, arrangement: .prefix)
    return configuration
  }
}

extension BlobStore {
  /// Which records go first where a limit is exceeded.
  public enum Eviction: String, CaseIterable, Sendable {
    /// Those that were used least, for the time since they were used last.
    ///
    /// The processes of a directory count uses in shared memory. Where they have none, the order is that of `oldest`.
    case frequency
    /// Those with the oldest update time, as in SPTPersistentCache.
    case oldest
  }

  /// The fate of files whose records are removed, replaced, expired or evicted.
  public enum Recycling: Hashable, Sendable {
    /// They are unlinked.
    case off
    /// Later stores overwrite them. 4096 files are kept at most, and 16 MiB.
    ///
    /// Under a size limit a hundredth of it is kept, if that is more than 16 MiB. A tenth of the limit is never exceeded,
    /// nor what `limits.evictionTarget` leaves of it. Where the platform or the file system has no leases, nothing is kept.
    /// When a reader opens a file that is being overwritten, the kernel sends the process SIGURG, which is ignored by
    /// default.
    case automatic
    /// Later stores overwrite them, within these bounds.
    case bounded(bytes: Int64, files: Int64)
  }
}
