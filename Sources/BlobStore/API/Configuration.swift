public import BlobRecord
public import Logging
internal import Posix

extension BlobStore {
  /// How a store treats its directory. Everything has the default of SPTPersistentCache where that has one.
  public struct Configuration: Sendable {
    /// How keys become file names, and whether records are spread over subdirectories. All programs that share a
    /// directory must agree on it.
    public var layout = RecordLayout()
    /// The header that stores write; loads read both.
    public var format = RecordFormat.checksummed
    /// The time to live of records stored without one, counted from their last access. Values under
    /// `minimumExpiration` are raised to it, with a logged warning.
    public var defaultExpiration: Duration = .seconds(600)
    /// Bytes, headers included, that a collection leaves at the most; nil for no limit.
    public var sizeLimit: Int64?
    /// Records that a collection leaves at the most, damaged ones among them; nil for no limit.
    public var countLimit: Int64?
    /// Bytes of the volume that a collection with a size limit leaves free; nil for a tenth of the volume, 4 GiB at most.
    /// Stores look after it too, and start one where `collectsOnStore`.
    public var freeSpaceFloor: Int64?
    /// How much of its limits a collection leaves when they are exceeded, above 0 and up to 1: with less, the next
    /// collection is needed later.
    public var evictionTarget = 0.9
    /// Whether a store starts a collection by itself, on a thread of its own: when it takes the directory over a limit, and
    /// when it finds the volume full. Without, limits are kept by collections that somebody else makes.
    public var collectsOnStore = true
    /// Whether collections are added to the directory's statistics and tell others when they were made. Not for a store
    /// whose clock shows another time than the others'.
    public var recordsCollections = true
    /// The largest payload, in bytes, that is stored or loaded.
    public var maximumPayload: Int64 = 1 << 30
    public var durability = Durability.automatic
    /// Whether stores overwrite the files of dead records instead of making new ones. What was removed then stays on the
    /// medium, in `.recycled` below the root, until it is overwritten or a collection empties that; what must be gone at
    /// once is purged.
    public var recycling = Recycling.automatic
    /// What a load does with a damaged file, besides throwing.
    public var damagePolicy = DamagePolicy.report
    /// Whether the first store makes the directory. Without, an absent directory is an error of every operation.
    public var createsDirectory = true
    /// Whether to use a directory that everybody may write to and that has no sticky bit. Anyone could plant or
    /// remove blobs there, or end the program by cutting off the control file that it maps.
    public var allowsWorldWritableDirectory = false
    public var sharing = Sharing.shared
    /// Whether the first change leaves this configuration's default expiration, size limit and layout in the directory,
    /// for the tool to go by.
    public var leavesHint = true
    /// How long a change waits for others that are changing the same key before it is `busy`. Loads never wait.
    public var lockTimeout: Duration = .seconds(10)
    public var logger = Logger(label: "BlobStore")
    /// The time, for everything that expires.
    public var now: @Sendable () -> UnixTime = { UnixTime(seconds: SystemClock.unixSeconds()) }

    public init() {}

    /// The shortest default expiration: SPTPersistentCache's floor.
    public static let minimumExpiration: Duration = .seconds(60)
  }

  /// Who else uses the directory.
  public enum Sharing: Sendable {
    /// Any number of processes, the tool among them.
    case shared
    /// This store alone: changes take no file locks. Another process that changes something breaks the promises.
    case exclusive
  }

  /// Which header fields a store writes beyond SPTPersistentCache's.
  public enum RecordFormat: Sendable {
    /// The payload's checksum and the key's digest: flags 0x2 and 0x4. SPTPersistentCache reads such files too.
    case checksummed
    /// Exactly SPTPersistentCache's header: flags 0, reserved fields 0. Damage to the payload goes unnoticed.
    case reference
  }

  /// What to do with a damaged file.
  public enum DamagePolicy: String, CaseIterable, Sendable {
    /// Leave it where it is.
    case report
    case remove
    /// Move it to `.quarantine` below the root, where the oldest files give way to new ones.
    case quarantine
  }
}
