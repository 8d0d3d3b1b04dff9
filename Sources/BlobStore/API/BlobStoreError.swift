public import BlobRecord
internal import Posix
public import SystemPackage

/// An error that an operation of a store throws.
public struct BlobStoreError: Error, Sendable {
  public let code: Code
  /// The name of the operation that failed, such as `store`.
  public let operation: String
  /// A description of the failure without the operation, the key, and the path.
  public let message: String
  public let key: BlobKey?
  /// The file or directory that the error refers to.
  public let path: FilePath?
  /// The manual page of the system call that failed, such as `open(2)`, which also covers `openat`.
  public let systemCall: String?
  /// The error number of the system call that failed.
  public let errno: Errno?
  /// The rule of the record format that a damaged record breaks.
  public let recordError: RecordError?
  /// The process that collects the directory, for `collectionRunning`, if it is known.
  public private(set) var runningProcess: Int32?

  /// The kind of failure, to which later versions may add cases, so a `switch` needs a default case.
  public struct Code: Hashable, Sendable, CustomStringConvertible {
    private enum Kind: String {
      case fileSystem, damaged, invalidKey, invalidTimeToLive, invalidConfiguration, payloadTooLarge, foreignFile
      case directoryMissing, worldWritableDirectory, lockCountOverflow, notACache, collectionRunning, busy, forkedChild
      case sourceMissing, sourceUnreadable, limitReached, laterVersion, settingsUnreadable, layoutMismatch, sizeMismatch
      case superseded, streamStalled, streamBroken, invalidRange, extendedDataTooLarge, extendedDataRefused,
        sharedMemoryRequired, internalInconsistency
    }

    private let kind: Kind
    private init(_ kind: Kind) { self.kind = kind }

    /// A system call failed, which `systemCall`, `path`, and `errno` describe.
    public static let fileSystem = Code(.fileSystem)
    /// The record breaks the rule in `recordError`, or, if that is `nil`, the pack at `path` cannot be used.
    public static let damaged = Code(.damaged)
    /// The store's naming has no file name for the key.
    public static let invalidKey = Code(.invalidKey)
    /// The time to live is not above zero.
    public static let invalidTimeToLive = Code(.invalidTimeToLive)
    /// A limit is not above zero, or a maximum is below zero.
    public static let invalidConfiguration = Code(.invalidConfiguration)
    /// The payload is larger than `limits.payload` or than the size limit.
    public static let payloadTooLarge = Code(.payloadTooLarge)
    /// A file that is not a record has the name of the record, and is never replaced.
    public static let foreignFile = Code(.foreignFile)
    /// The directory does not exist, and the configuration does not allow the store to create it.
    public static let directoryMissing = Code(.directoryMissing)
    /// Every user may write to the directory (see `access.allowsWorldWritable`).
    public static let worldWritableDirectory = Code(.worldWritableDirectory)
    /// The record already has 2^32-1 locks.
    public static let lockCountOverflow = Code(.lockCountOverflow)
    /// Nothing in the directory shows that it is a cache, so its files are not removed.
    public static let notACache = Code(.notACache)
    /// Another collection of the directory is running.
    public static let collectionRunning = Code(.collectionRunning)
    /// The key, or another key of its stripe, was being changed until `access.lockTimeout` expired.
    public static let busy = Code(.busy)
    /// The store was created before this process was forked, and would share its locks with the parent process.
    public static let forkedChild = Code(.forkedChild)
    /// The directory to import from does not exist, or is the cache's own directory.
    public static let sourceMissing = Code(.sourceMissing)
    /// The database of the imported cache is damaged or belongs to another program, or SQLite is not installed.
    public static let sourceUnreadable = Code(.sourceUnreadable)
    /// The record would exceed the directory's limits by far, and no collection has made room for it.
    public static let limitReached = Code(.limitReached)
    /// A later version of this library has changed the directory, and this version does not know its locks or records.
    public static let laterVersion = Code(.laterVersion)
    /// The directory's settings, `.blobcache.conf`, are damaged, were edited by hand, or belong to another user.
    public static let settingsUnreadable = Code(.settingsUnreadable)
    /// The directory's records have a different layout or naming than the configuration.
    public static let layoutMismatch = Code(.layoutMismatch)
    /// A writer received more or fewer bytes than its `expectedSize`.
    public static let sizeMismatch = Code(.sizeMismatch)
    /// The key was stored or removed while a visible writer was writing, so the writer's blob is discarded.
    public static let superseded = Code(.superseded)
    /// A follower has waited for more bytes until its timeout, but may continue to read.
    public static let streamStalled = Code(.streamStalled)
    /// A followed blob will never be complete, because its writer has failed or ended.
    public static let streamBroken = Code(.streamBroken)
    /// A range of bytes is not within the payload.
    public static let invalidRange = Code(.invalidRange)
    /// The extended data exceed 4 KiB, the most that a record can contain.
    public static let extendedDataTooLarge = Code(.extendedDataTooLarge)
    /// The directory may be shared with SPTPersistentCache, which cannot read a record with extended data.
    public static let extendedDataRefused = Code(.extendedDataRefused)
    /// The directory has packs, and this process cannot map the control file that is required to change them.
    public static let sharedMemoryRequired = Code(.sharedMemoryRequired)
    /// This library has a bug.
    public static let internalInconsistency = Code(.internalInconsistency)

    public var description: String { kind.rawValue }
  }

  init(
    _ code: Code, _ message: String, path: FilePath? = nil, operation: String = "", key: BlobKey? = nil,
    systemCall: String? = nil, errno: Errno? = nil, recordError: RecordError? = nil
  ) {
    self.code = code
    self.operation = operation
    self.message = message
    self.key = key
    self.path = path
    self.systemCall = systemCall
    self.errno = errno
    self.recordError = recordError
  }

  /// Creates the error for a directory or key that another process is using.
  init(_ code: Code, _ message: String, path: FilePath? = nil, runningProcess: Int32?) {
    self.init(code, message, path: path)
    self.runningProcess = runningProcess
  }
}

extension BlobStoreError {
  var isLackOfPermission: Bool { errno == .permissionDenied || errno == .notPermitted }
}

extension BlobStoreError: CustomStringConvertible {
  /// A description such as `store "a/b": open(2): Permission denied: /var/cache/x/a%/a%2Fb`.
  public var description: String {
    let subject = key.map { "\(operation) \"\($0.string)\"" } ?? operation
    return ([subject, message] + (path.map { [$0.string] } ?? [])).joined(separator: ": ")
  }
}

extension BlobStoreError {
  /// Returns the error for an untrusted directory that has a name the cache uses.
  static func foreignDirectory(at path: FilePath, _ distrust: Distrust) -> BlobStoreError {
    BlobStoreError(
      .foreignFile,
      "this directory is none of the cache's, and is left alone: \(distrust); its owner or the superuser can remove it",
      path: path)
  }
}

extension FileError {
  /// A Boolean value that indicates whether the volume is full or the caller's quota is used up.
  var isLackOfRoom: Bool { [.noSpace, .diskQuotaExceeded].contains(errno) }
}

// MARK: - Mapping

/// The internal error for a damaged file, which is mapped to a `BlobStoreError` before it reaches the caller.
struct DamagedRecord: Error {
  let error: RecordError
  let path: FilePath
}

/// The internal error of a store that failed after its record was published. The record may not be on the medium, or
/// could not be withdrawn.
///
/// The record must not be stored again, because others may have locked it in the meantime.
struct Published: Error {
  let cause: any Error
}

/// Performs the steps that follow the publication of a record. Their errors are thrown as `Published`.
func afterPublication(_ steps: () throws -> Void) throws {
  do {
    try steps()
  } catch {
    throw Published(cause: error)
  }
}

extension BlobStoreError {
  /// Converts an error of a lower layer. All such conversions happen here.
  init(_ error: any Error, operation: String, key: BlobKey?) {
    switch error {
    case let error as BlobStoreError:
      self.init(
        error.code, error.message, path: error.path, operation: operation, key: error.key ?? key,
        systemCall: error.systemCall, errno: error.errno, recordError: error.recordError)
      runningProcess = error.runningProcess
    case let error as FileError:
      self.init(
        .fileSystem, "\(error.call.manualPage): \(error.errno)", path: error.path, operation: operation, key: key,
        systemCall: error.call.manualPage, errno: error.errno)
    case let error as DamagedRecord:
      self.init(
        .damaged, "damaged: \(error.error)", path: error.path, operation: operation, key: key,
        recordError: error.error)
    case let error as Published: self.init(error.cause, operation: operation, key: key)
    case let error as KeyError:
      self.init(.invalidKey, error.description, operation: operation, key: key)
    default:
      self.init(.internalInconsistency, "\(error)", operation: operation, key: key)
    }
  }
}

/// Runs an operation, and adds the operation's name and its key to the errors that it throws.
func withErrorContext<Result: ~Copyable>(
  _ operation: String, _ key: BlobKey? = nil, _ body: () throws -> Result
) throws(BlobStoreError) -> Result {
  do {
    return try body()
  } catch {
    throw BlobStoreError(error, operation: operation, key: key)
  }
}

/// Lets `localizedDescription` describe the failure, instead of showing a number.
extension BlobStoreError: LocalizedError {
  public var errorDescription: String? { description }
  public var failureReason: String? { message }
}
