public import BlobRecord
internal import Posix
public import SystemPackage

/// Why an operation of a store could not be done.
public struct BlobStoreError: Error, Sendable {
  public let code: Code
  /// The verb that failed, such as `store`.
  public let operation: String
  /// What happened, in a sentence without the operation, the key and the path.
  public let message: String
  public let key: BlobKey?
  /// The file or directory concerned.
  public let path: FilePath?
  /// The system call that failed, by its manual page, such as `open(2)`, which has `openat` too.
  public let systemCall: String?
  /// Why the system call failed.
  public let errno: Errno?
  /// Which rule a damaged record breaks.
  public let recordError: RecordError?
  /// The process that collects the directory, for `collectionRunning`, where it is known.
  public private(set) var runningProcess: Int32?

  /// The kind of failure. More may be added; switch with a default.
  public struct Code: Hashable, Sendable, CustomStringConvertible {
    private enum Kind: String {
      case fileSystem, damaged, invalidKey, invalidTimeToLive, invalidConfiguration, payloadTooLarge, foreignFile
      case directoryMissing, worldWritableDirectory, lockCountOverflow, notACache, collectionRunning, busy, forkedChild
      case sourceMissing, sourceUnreadable, limitReached, laterVersion, settingsUnreadable, layoutMismatch, sizeMismatch
      case overtaken, streamStalled, streamBroken, invalidRange, extendedDataTooLarge, extendedDataRefused,
        sharedMemoryRequired, internalInconsistency
    }

    private let kind: Kind
    private init(_ kind: Kind) { self.kind = kind }

    /// A system call failed: `systemCall`, `path` and `errno` say which, on what and why.
    public static let fileSystem = Code(.fileSystem)
    /// The record's file breaks the rule in `recordError`. Without one, it is a pack that cannot be used: `path`.
    public static let damaged = Code(.damaged)
    /// The key has no file name under the store's naming.
    public static let invalidKey = Code(.invalidKey)
    /// A TTL of zero or less.
    public static let invalidTimeToLive = Code(.invalidTimeToLive)
    /// A limit of zero or less, or a maximum below zero.
    public static let invalidConfiguration = Code(.invalidConfiguration)
    /// The payload is larger than `limits.payload` or than the size limit.
    public static let payloadTooLarge = Code(.payloadTooLarge)
    /// Something that is no record lies where the record belongs; it is never replaced.
    public static let foreignFile = Code(.foreignFile)
    /// There is no directory, and the configuration says not to make one.
    public static let directoryMissing = Code(.directoryMissing)
    /// Every user may write to the directory; see `access.allowsWorldWritable`.
    public static let worldWritableDirectory = Code(.worldWritableDirectory)
    /// The record is locked 2^32-1 times.
    public static let lockCountOverflow = Code(.lockCountOverflow)
    /// Nothing in the directory shows that it is a cache, so its files are not removed.
    public static let notACache = Code(.notACache)
    /// This directory is being collected already.
    public static let collectionRunning = Code(.collectionRunning)
    /// Others were changing the key, or one that shares its lock, until the deadline: `access.lockTimeout`.
    public static let busy = Code(.busy)
    /// The store was made before this process was forked, and would share its locks with its parent.
    public static let forkedChild = Code(.forkedChild)
    /// The directory to import from is not there, or is the cache's own.
    public static let sourceMissing = Code(.sourceMissing)
    /// The database of the imported cache is damaged or another program's, or no SQLite is installed to read it.
    public static let sourceUnreadable = Code(.sourceUnreadable)
    /// The directory may not take the record without exceeding its limits by far, and no collection has made room.
    public static let limitReached = Code(.limitReached)
    /// A later version of this library has changed the directory, and this one does not know its locks or records.
    public static let laterVersion = Code(.laterVersion)
    /// The directory's settings, `.blobcache.conf`, are damaged, changed by hand or another user's.
    public static let settingsUnreadable = Code(.settingsUnreadable)
    /// The directory's records have another layout or naming than the configuration.
    public static let layoutMismatch = Code(.layoutMismatch)
    /// A writer was given more or fewer bytes than its `expectedSize`.
    public static let sizeMismatch = Code(.sizeMismatch)
    /// The key was stored or removed while a writer that is seen wrote, so that its blob was given up.
    public static let overtaken = Code(.overtaken)
    /// A follower has waited for more bytes for as long as it may. It may go on to read.
    public static let streamStalled = Code(.streamStalled)
    /// A blob that is followed is not to come: its writer has given it up, or is gone.
    public static let streamBroken = Code(.streamBroken)
    /// A range of bytes that does not lie within the payload.
    public static let invalidRange = Code(.invalidRange)
    /// There are more extended data than a record takes, which is 4 KiB.
    public static let extendedDataTooLarge = Code(.extendedDataTooLarge)
    /// SPTPersistentCache could not read a record with extended data, and the directory may be shared with it.
    public static let extendedDataRefused = Code(.extendedDataRefused)
    /// The directory has packs, which only processes that share memory change; this one cannot map the control file.
    public static let sharedMemoryRequired = Code(.sharedMemoryRequired)
    /// A fault of this library.
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

  /// The error for a directory or a key that a process has in use.
  init(_ code: Code, _ message: String, path: FilePath? = nil, runningProcess: Int32?) {
    self.init(code, message, path: path)
    self.runningProcess = runningProcess
  }
}

extension BlobStoreError {
  /// Whether the call failed because the caller lacks a permission.
  var isLackOfPermission: Bool { errno == .permissionDenied || errno == .notPermitted }
}

extension BlobStoreError: CustomStringConvertible {
  /// Such as `store "a/b": open(2): Permission denied: /var/cache/x/a%/a%2Fb`.
  public var description: String {
    let subject = key.map { "\(operation) \"\($0.string)\"" } ?? operation
    return ([subject, message] + (path.map { [$0.string] } ?? [])).joined(separator: ": ")
  }
}

extension BlobStoreError {
  /// A directory with a name of the cache's that is not trusted.
  static func foreignDirectory(at path: FilePath, _ distrust: Distrust) -> BlobStoreError {
    BlobStoreError(
      .foreignFile,
      "this directory is none of the cache's, and is left alone: \(distrust); its owner or the superuser can remove it",
      path: path)
  }
}

extension FileError {
  /// Whether the volume, or the caller's share of it, is full.
  var isLackOfRoom: Bool { [.noSpace, .diskQuotaExceeded].contains(errno) }
}

// MARK: - Mapping

/// A damaged file on its way up to the operation that reports it.
struct DamagedRecord: Error {
  let error: RecordError
  let path: FilePath
}

extension BlobStoreError {
  /// The one place where errors of lower layers become those that callers see.
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
    case let error as KeyError:
      self.init(.invalidKey, error.description, operation: operation, key: key)
    default:
      self.init(.internalInconsistency, "\(error)", operation: operation, key: key)
    }
  }
}

/// Runs an operation. Its errors get the operation's name and its key.
func withErrorContext<Result: ~Copyable>(
  _ operation: String, _ key: BlobKey? = nil, _ body: () throws -> Result
) throws(BlobStoreError) -> Result {
  do {
    return try body()
  } catch {
    throw BlobStoreError(error, operation: operation, key: key)
  }
}

/// So that `localizedDescription` tells what happened, instead of a number.
extension BlobStoreError: LocalizedError {
  public var errorDescription: String? { description }
  public var failureReason: String? { message }
}
