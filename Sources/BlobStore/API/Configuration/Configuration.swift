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
