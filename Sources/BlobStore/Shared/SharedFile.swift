internal import Locks
internal import Logging
internal import Posix
internal import Synchronization
internal import SystemPackage

/// A file at the root that processes share, with bytes that they lock and, if possible, memory that they map.
///
/// Its content can be rebuilt, so the next change replaces a damaged file as a whole.
final class SharedFile: Sendable {
  let format: Format
  private let file: OpenFile
  /// The mapped memory, or `nil` if the file could not be mapped. Locks do not need it.
  private let map: MappedFile?
  /// The pages of a sparse file, or `nil` if every page is allocated, or none is mapped.
  private let pages: SparsePages?
  /// A Boolean value that indicates whether holes must not be read through the mapping.
  private let readsNeedRoom: Bool
  /// A Boolean value that indicates whether the file is mapped, and this process may write to it.
  let isMapped: Bool
  /// A Boolean value that indicates whether the next change must replace the file. Its locks are valid until then.
  let isDamaged: Bool
  let owners: FileOwners
  let inode: UInt64
  /// The permissions that keep readers from locking the file, or `nil` if they are set or cannot be set.
  private let permissionsToGive: Lock<FilePermissions?>
  /// A Boolean value that indicates whether an untrusted user owns the file, so its existence proves nothing.
  let mayBePlanted: Bool

  init(
    _ format: Format, _ file: consuming OpenFile, _ status: Stat, _ ownership: FileOwnership,
    map: consuming MappedFile?, _ pages: SparsePages? = nil, for access: FileAccess = .readWrite, isDamaged: Bool
  ) {
    let permissions = status.permissions.withoutReaders
    owners = ownership.owners
    inode = status.inodeNumber
    let mayChangeIt = status.userID == owners.caller || (owners.caller.rawValue == 0 && ownership.owns(status))
    permissionsToGive = Lock(mayChangeIt && permissions != status.permissions ? permissions : nil)
    mayBePlanted = if case .owner = owners.distrust(of: status) { true } else { false }
    self.format = format
    self.file = file
    isMapped = access == .readWrite && map != nil
    self.map = map
    self.pages = pages
    readsNeedRoom = pages?.readsNeedRoom == true
    self.isDamaged = isDamaged
  }

  /// Removes the read permission of users without write permission, who could otherwise lock the file.
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
  func tryLock(_ bytes: Range<Int64>, isShared: Bool = false) throws(FileError) -> Bool {
    try file.tryLock(bytes: bytes, isShared: isShared)
  }

  func areLockedElsewhere(_ bytes: Range<Int64>) throws(FileError) -> Bool {
    try file.areLockedElsewhere(bytes: bytes)
  }

  /// Tries to lock bytes. Returns `nil` if the file was deleted or replaced, so that its locks have no effect.
  ///
  /// System calls: `fcntl(2)`, `fstat(2)`.
  func tryLock(_ bytes: Range<Int64>, in directory: borrowing Directory) throws -> Bool? {
    do {
      guard try file.tryLock(bytes: bytes) else { return false }
    } catch {
      guard error.errno == .staleNFSFileHandle else { throw error }
      return nil
    }
    var isTaken = false
    // An unused lock must be released, even if `isCurrent` throws, because all others would wait as long as this
    // process keeps the file open.
    defer { if !isTaken { unlock(bytes) } }
    // A file that was moved is noticed a second later.
    isTaken = try isCurrent(in: directory, isTrusted: true)
    return isTaken ? true : nil
  }

  /// Returns whether the file still has its name, without which its content is meaningless. If `isTrusted`, the name
  /// is rarely looked up, so a file that was moved is considered current.
  func isCurrent(in directory: borrowing Directory, isTrusted: Bool = false) throws -> Bool {
    guard let status = try existingStatus() else { return false }
    // A file with another name, such as a backup's, still exists when it loses this one. A damaged file that another
    // user has linked here is replaced.
    if isTrusted, status.linkCount == 1, !isDamaged { return true }
    return try format.isLinked(status, in: directory)
  }

  /// Returns the status, or `nil` if another host of a network file system has deleted the file.
  private func existingStatus() throws(FileError) -> Stat? {
    do {
      return try file.status()
    } catch {
      guard error.errno == .staleNFSFileHandle else { throw error }
      return nil
    }
  }

  func unlock(_ bytes: Range<Int64>) {
    // Fails only for an invalid descriptor or range. The lock would then be released with the process.
    try? file.unlock(bytes: bytes)
  }
}

// MARK: - Words

extension SharedFile {
  /// Writes a word of a file that is not mapped. System calls: `pwrite(2)`.
  func write(_ word: Int64, at offset: Int) throws(FileError) {
    try file.write(unsafe [word.littleEndian].span.bytes, at: Int64(offset))
  }

  /// A Boolean value that indicates whether the file is mapped.
  var isReadable: Bool { map != nil }

  func willStep(_ step: SystemCall) throws(FileError) { try file.willStep(step) }

  /// Calls a closure with a word of a mapped file. The closure must not write if the file is only readable, or if the
  /// word's page is not allocated (`allocate`).
  @inline(__always)
  func withWord<Word: AtomicRepresentable, Result>(
    at offset: Int, as type: Word.Type, _ body: (borrowing Atomic<Word>) -> Result
  ) -> Result {
    if readsNeedRoom { return withWordOutsideHoles(at: offset, as: type, body) }
    return map!.withWord(at: offset, as: type, body)
  }

  /// Calls a closure like `withWord`, with a zero in place of a word in a hole. Not inlined, because it is rarely needed.
  @inline(never)
  private func withWordOutsideHoles<Word: AtomicRepresentable, Result>(
    at offset: Int, as type: Word.Type, _ body: (borrowing Atomic<Word>) -> Result
  ) -> Result {
    guard pages!.isHole(offset, of: file) else { return map!.withWord(at: offset, as: type, body) }
    return pages!.zeros!.withWord(at: offset, as: type, body)
  }

  /// Allocates the page of a word of a sparse file that is mapped, before the first write to it by this process
  /// (`SparsePages.allocate`).
  ///
  /// - Returns: `true` if the page was not known to be allocated.
  @discardableResult
  func allocate(_ offset: Int) throws(FileError) -> Bool {
    try pages!.allocate(offset, of: file, locking: format.fillingByte)
  }

  func prefetch(at offset: Int) { map!.prefetch(at: offset) }

  func withWords<Result>(at offset: Int, count: Int, _ body: (UnsafePointer<Atomic<UInt64>>) -> Result) -> Result {
    unsafe map!.withWords(at: offset, count: count, body)
  }
}

extension SharedFile {
  /// A kind of shared file, with its name, its version, and its locked bytes.
  struct Format: Sendable {
    let name: String
    /// The name in messages.
    let title: String
    /// The loss of function, in messages, if the file cannot be mapped.
    let loss: String
    let magic: UInt64
    let version: UInt64
    /// The number of mapped bytes, which is the size of the file unless `mayBeLonger`.
    let byteCount: Int
    var mayBeLonger = false
    /// A Boolean value that indicates whether each page of the file is allocated before the first write to it.
    var isSparse = false
    /// A Boolean value that indicates whether the next change replaces a file with another hard link, which another
    /// directory may use.
    var hasOneName = false
    /// The bytes that a change may lock. A process must lock all of them to replace a damaged file.
    let lockedBytes: Range<Int64>
    /// Additional bytes that sessions lock, though not for a change.
    var sharedBytes: Range<Int64> = 0..<0
    /// The byte that is locked to allocate a page of a sparse file by writing it.
    var fillingByte: Range<Int64> = 0..<0
    /// Returns the first words of a new file, beginning with magic and version.
    let firstWords: @Sendable () -> [UInt64]

    func isLength(_ length: Int64) -> Bool {
      mayBeLonger ? length >= Int64(byteCount) : length == Int64(byteCount)
    }

    func isLinked(_ status: Stat, in directory: borrowing Directory) throws(FileError) -> Bool {
      guard let linked = try directory.status(of: name) else { return false }
      return linked.deviceID == status.deviceID && linked.inode == status.inode
    }
  }
}
