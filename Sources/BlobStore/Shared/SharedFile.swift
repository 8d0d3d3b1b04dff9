internal import Locks
internal import Logging
internal import Posix
internal import Synchronization
internal import SystemPackage

/// A file at the root that the processes of a directory have in common: bytes to lock, and where possible memory.
///
/// Nothing in it cannot be rebuilt. One that is damaged is replaced whole, by the next change.
final class SharedFile: Sendable {
  let format: Format
  private let file: OpenFile
  /// nil where the file could not be mapped, or is no version of ours: locks work all the same.
  private let map: MappedFile?
  /// Whether the content is no version's, so that the next change must replace the file. Its locks count until then.
  let isDamaged: Bool
  /// Whose files are records in the directory.
  let owners: FileOwners
  /// Those that keep readers from locking it, where it has others; nil once they were given.
  private let permissionsToGive: Lock<FilePermissions?>
  /// Whether it belongs to a user who is not believed: that it lies there proves nothing.
  let mayBePlanted: Bool

  init(
    _ format: Format, _ file: consuming OpenFile, _ status: Stat, _ ownership: FileOwnership,
    map: consuming MappedFile?, isDamaged: Bool
  ) {
    let permissions = status.permissions.withoutReaders
    owners = ownership.owners
    let mayChangeIt = status.userID == owners.caller || (owners.caller.rawValue == 0 && ownership.owns(status))
    permissionsToGive = Lock(mayChangeIt && permissions != status.permissions ? permissions : nil)
    mayBePlanted = if case .owner = owners.distrust(of: status) { true } else { false }
    self.format = format
    self.file = file
    self.map = map
    self.isDamaged = isDamaged
  }

  /// Keeps those from its locks who may not change the directory, if it was made when they could open it.
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
  /// Tries to lock bytes for this open file.
  ///
  /// System calls: `fcntl(2)`, `fstat(2)`.
  ///
  /// - Returns: nil if the file was deleted or replaced, so that its locks bind nobody: open it again.
  func tryLock(_ bytes: Range<Int64>, in directory: borrowing Directory) throws -> Bool? {
    do {
      guard try file.tryLock(bytes: bytes) else { return false }
    } catch {
      guard error.errno == .staleNFSFileHandle else { throw error }
      return nil
    }
    var isTaken = false
    // However the look at the file ends, a lock that is not handed out must not stay: the file is open as long as the
    // process lives, and everybody else would wait for it.
    defer { if !isTaken { unlock(bytes) } }
    // One that was moved away is noticed a second later.
    isTaken = try isCurrent(in: directory, isTrusted: true)
    return isTaken ? true : nil
  }

  /// Whether the file still has its name. If not, what is in it concerns nobody.
  ///
  /// - Parameter isTrusted: spares a look at the name in nearly all cases. A file that was moved away is current then.
  func isCurrent(in directory: borrowing Directory, isTrusted: Bool = false) throws -> Bool {
    guard let status = try existingStatus() else { return false }
    // A file with another name, such as a backup's, lives on when it loses this one. So does one that is damaged and
    // somebody's who has linked it here: it is replaced.
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
    // Fails only for a descriptor that is none, or a range that is none. If it did, the lock would go with the process.
    try? file.unlock(bytes: bytes)
  }
}

// MARK: - Words

extension SharedFile {
  /// Whether there is memory to share; without, there are no words.
  var isMapped: Bool { map != nil }

  /// Runs a closure on a word, of a file that is mapped.
  func withWord<Word: AtomicRepresentable, Result>(
    at offset: Int, as type: Word.Type, _ body: (borrowing Atomic<Word>) -> Result
  ) -> Result {
    map!.withWord(at: offset, as: type, body)
  }
}
