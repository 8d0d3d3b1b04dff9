internal import Locks
internal import Logging
internal import Posix
internal import Synchronization
internal import SystemPackage

/// A file at the root that the processes of a directory have in common: bytes to lock, and where possible memory.
///
/// All of it can be rebuilt. The next change replaces a damaged one as a whole.
final class SharedFile: Sendable {
  let format: Format
  private let file: OpenFile
  /// nil where the file could not be mapped, or has a later version: locks work all the same.
  private let map: MappedFile?
  private let access: FileAccess
  /// Whether the content is no version's, so that the next change must replace the file. Its locks count until then.
  let isDamaged: Bool
  /// Whose files are records in the directory.
  let owners: FileOwners
  /// Permissions that keep readers from locking it; nil once they are given, and where this process may not give them.
  private let permissionsToGive: Lock<FilePermissions?>
  /// Whether it belongs to a user that the directory does not trust: then its presence proves nothing.
  let mayBePlanted: Bool

  init(
    _ format: Format, _ file: consuming OpenFile, _ status: Stat, _ ownership: FileOwnership,
    map: consuming MappedFile?, for access: FileAccess = .readWrite, isDamaged: Bool
  ) {
    let permissions = status.permissions.withoutReaders
    owners = ownership.owners
    let mayChangeIt = status.userID == owners.caller || (owners.caller.rawValue == 0 && ownership.owns(status))
    permissionsToGive = Lock(mayChangeIt && permissions != status.permissions ? permissions : nil)
    mayBePlanted = if case .owner = owners.distrust(of: status) { true } else { false }
    self.format = format
    self.file = file
    self.map = map
    self.access = access
    self.isDamaged = isDamaged
  }

  /// Keeps users that may not change the directory from its locks, if it was made when they could open it.
  func shutReadersOut(_ logger: Logger) {
    let permissions = permissionsToGive.withLock { permissions in
      defer { permissions = nil }
      return permissions
    }
    guard let permissions else { return }
    do {
      try file.setPermissions(permissions)
    } catch {
      logger.warning("\(BlobStoreError(error, operation: "keep readers from the locks", key: nil))")
    }
  }
}

// MARK: - Locks

extension SharedFile {
  /// Tries to lock bytes for this open file, whether it has its name or not.
  func tryLock(_ bytes: Range<Int64>, isShared: Bool = false) throws(FileError) -> Bool {
    try file.tryLock(bytes: bytes, isShared: isShared)
  }

  /// Whether another open file, of this process or of another, holds a lock on one of the bytes.
  func areLockedElsewhere(_ bytes: Range<Int64>) throws(FileError) -> Bool {
    try file.areLockedElsewhere(bytes: bytes)
  }

  /// Tries to lock bytes for this open file.
  ///
  /// System calls: `fcntl(2)`, `fstat(2)`.
  ///
  /// - Returns: nil if the file was deleted or replaced, so that its locks bind no other process: open it again.
  func tryLock(_ bytes: Range<Int64>, in directory: borrowing Directory) throws -> Bool? {
    do {
      guard try file.tryLock(bytes: bytes) else { return false }
    } catch {
      guard error.errno == .staleNFSFileHandle else { throw error }
      return nil
    }
    var isTaken = false
    // A lock that is not handed out must not stay, also if the look at the file throws. The file is open as long as the
    // process lives, and all others would wait.
    defer { if !isTaken { unlock(bytes) } }
    // One that was moved away is noticed a second later.
    isTaken = try isCurrent(in: directory, isTrusted: true)
    return isTaken ? true : nil
  }

  /// Whether the file still has its name. Without it, the content has lost its meaning.
  ///
  /// - Parameter isTrusted: spares a look at the name in nearly all cases. A file that was moved away is current then.
  func isCurrent(in directory: borrowing Directory, isTrusted: Bool = false) throws -> Bool {
    guard let status = try existingStatus() else { return false }
    // A file with another name, such as a backup's, lives on when it loses this one. So does a damaged one that another
    // user has linked here: it is replaced.
    if isTrusted, status.linkCount == 1, !isDamaged { return true }
    return try format.isLinked(status, in: directory)
  }

  /// nil if another host of a network file system has deleted the file.
  private func existingStatus() throws(FileError) -> Stat? {
    do {
      return try file.status()
    } catch {
      guard error.errno == .staleNFSFileHandle else { throw error }
      return nil
    }
  }

  func unlock(_ bytes: Range<Int64>) {
    // Fails only for an invalid descriptor or range. If it did, the lock would go with the process.
    try? file.unlock(bytes: bytes)
  }
}

// MARK: - Words

extension SharedFile {
  /// Whether there is memory to share, in which this process may write too.
  var isMapped: Bool { map != nil && access == .readWrite }

  /// Whether there are words to read.
  var isReadable: Bool { map != nil }

  /// Comes before a step in the file's memory.
  func willStep(_ step: SystemCall) throws(FileError) { try file.willStep(step) }

  /// Runs a closure on a word, of a file that is mapped. It writes to none that is only readable.
  func withWord<Word: AtomicRepresentable, Result>(
    at offset: Int, as type: Word.Type, _ body: (borrowing Atomic<Word>) -> Result
  ) -> Result {
    map!.withWord(at: offset, as: type, body)
  }

  /// Asks the processor for a line of a file that is mapped.
  func prefetch(at offset: Int) { map!.prefetch(at: offset) }

  /// Runs a closure on words that follow each other, of a file that is mapped.
  func withWords<Result>(at offset: Int, count: Int, _ body: (UnsafePointer<Atomic<UInt64>>) -> Result) -> Result {
    unsafe map!.withWords(at: offset, count: count, body)
  }
}

extension SharedFile {
  /// One kind of shared file: its name, its version, and the bytes that are locked.
  struct Format: Sendable {
    let name: String
    /// What messages call it.
    let title: String
    /// What is lost where no process can map it, in messages.
    let loss: String
    /// The first word.
    let magic: UInt64
    /// The second word.
    let version: UInt64
    /// The bytes that are mapped: the whole file, unless it goes on behind them.
    let byteCount: Int
    /// Whether the file goes on behind the bytes that are mapped.
    var mayBeLonger = false
    /// Bytes that a change may lock: a damaged file is replaced by the one that has them all.
    let lockedBytes: Range<Int64>
    /// More of them, which sessions lock too, but not for a change.
    var sharedBytes: Range<Int64> = 0..<0
    /// The first words of a new file, magic and version first.
    let firstWords: @Sendable () -> [UInt64]

    func isLength(_ length: Int64) -> Bool {
      mayBeLonger ? length >= Int64(byteCount) : length == Int64(byteCount)
    }

    /// Whether a file has the name.
    func isLinked(_ status: Stat, in directory: borrowing Directory) throws(FileError) -> Bool {
      guard let linked = try directory.status(of: name) else { return false }
      return linked.deviceID == status.deviceID && linked.inode == status.inode
    }
  }
}
