internal import BlobRecord
internal import Posix
internal import Synchronization
internal import SystemPackage

/// A record file that is being written: a new file, or a dead record's file in the recycling bin that is overwritten.
///
/// If it is not published, a new draft is unlinked and a recycled one stays in the bin. A new draft is unnamed if the
/// system supports that (`UnnamedFile`), so that other processes cannot open it and it disappears with its process. A
/// draft with a temporary name is locked by its writer, so that a collection can recognize abandoned ones. A recycled
/// draft is leased until just before the call that publishes it (`RecyclingBin`).
struct FileDraft: ~Copyable {
  /// The directory in which the draft is published, and in which it has its temporary name.
  private(set) var subdirectory: OpenSubdirectory
  let file: OpenFile
  private let names: TemporaryNames
  private var place: Place
  private var isLeased = false
  /// The level of the last synchronization of the current content.
  private(set) var syncedLevel = BlobStore.Durability.Level.none
  private(set) var syncCount = 0
  /// The permissions that the file gets once it is complete. Until then only its writer's user may open a temporary
  /// name, because a process that can open a file can lock it, and a collection does not remove locked files.
  private var permissionsToGive: FilePermissions?

  private enum Place: ~Copyable {
    case nowhere
    case beside(String)
    case inBin(RecycledPlace)
    case published
  }

  /// Creates a file with a temporary name in `subdirectory`, with the permissions and ownership that the root
  /// prescribes. Throws ENOENT if the directory was removed. System calls: `openat(2)`, `flock(2)`, `fstat(2)`.
  init(
    in subdirectory: OpenSubdirectory, of ownership: FileOwnership, names: TemporaryNames,
    as role: FileOwnership.FileRole = .record
  ) throws {
    var name = names.next()
    var permissions: FilePermissions?
    var obstacle = Obstacle(call: .open, errno: .fileExists)
    names.note(name, in: subdirectory)
    var file = try Self.createLocked(name, in: subdirectory.directory, of: ownership, role, &permissions, &obstacle)
    var triesLeft = Self.tries
    while file == nil, triesLeft > 0 {
      names.forget(name)
      name = names.next()
      names.note(name, in: subdirectory)
      file = try Self.createLocked(name, in: subdirectory.directory, of: ownership, role, &permissions, &obstacle)
      triesLeft -= 1
    }
    guard let file = file.take() else {
      names.forget(name)
      throw FileError(obstacle.call, Location(subdirectory.directory.path, name), obstacle.errno)
    }
    self.names = names
    self.file = file
    self.subdirectory = subdirectory
    permissionsToGive = permissions
    place = .beside(name)
  }

  /// Takes over an unnamed file, and sets the root's permissions and ownership. System call: `fstat(2)`.
  init(
    unnamed file: consuming OpenFile, in subdirectory: OpenSubdirectory, of ownership: FileOwnership,
    names: TemporaryNames
  ) throws {
    let status = try file.status()
    let permissions = try Self.adopt(file, status, of: ownership, .record)
    if status.permissions != permissions { try file.setPermissions(permissions) }
    self.names = names
    self.file = file
    self.subdirectory = subdirectory
    place = .nowhere
  }

  init(_ file: consuming RecycledFile, in subdirectory: OpenSubdirectory, names: TemporaryNames) {
    self.names = names
    place = .inBin(file.place)
    isLeased = true
    self.file = file.file
    self.subdirectory = subdirectory
  }

  deinit {
    switch place {
    case .nowhere: break
    case .published: break
    // The store has failed and reports why; what cannot be unlinked now, a collection takes.
    case .beside(let name):
      _ = try? subdirectory.directory.unlink(name)
      names.forget(name)
    case .inBin(let recycled): recycled.giveBack()
    }
  }

  /// A Boolean value that indicates whether the file is recycled. It must not be written to after the first attempt to
  /// publish it.
  var isRecycled: Bool {
    switch place {
    case .inBin: true
    default: false
    }
  }

  /// A Boolean value that indicates whether the record may still follow the previous content of the file.
  var isStillSafe: Bool {
    switch place {
    case .inBin(let recycled): recycled.isStillSafe
    default: true
    }
  }

  var kind: DraftAttempts.Kind {
    switch place {
    case .inBin: .recycled
    case .nowhere: .unnamed
    case .beside: .named
    case .published: .named
    }
  }

  /// Writes the record by `write`, which may complete the header, and truncates a longer recycled file.
  borrowing func fill(
    _ header: inout RecordHeader, _ write: (borrowing OpenFile, inout RecordHeader) throws -> Void
  ) throws {
    try write(file, &header)
    let byteCount = header.fileByteCount
    switch place {
    case .inBin(let recycled) where recycled.entry.byteCount > byteCount: try file.truncate(to: byteCount)
    default: break
    }
  }

  /// Moves a draft to another directory, in which it gets another temporary name. Throws ENOENT if the directory was
  /// removed.
  mutating func move(to subdirectory: OpenSubdirectory) throws(FileError) {
    // Other drafts get their name in the directory when they are published.
    guard kind == .named else { return self.subdirectory = subdirectory }
    let old = try name()
    let new = names.next()
    names.note(new, in: subdirectory)
    do {
      try self.subdirectory.directory.rename(old, to: new, in: subdirectory.directory)
    } catch {
      names.forget(new)
      throw error
    }
    names.forget(old)
    self.subdirectory = subdirectory
    place = .beside(new)
  }

  /// Publishes the draft unless the name is in use. Returns `nil` if the file system cannot check that.
  mutating func commit(as fileName: String) throws(FileError) -> Bool? {
    let isNamed =
      if kind == .unnamed {
        try subdirectory.directory.name(file, ifAbsent: fileName)
      } else {
        try renameIfAbsent(to: fileName)
      }
    if isNamed == true { didPublish() }
    return isNamed
  }

  /// Publishes the draft unless the name is in use, if `commit` is not supported. The temporary name is removed.
  mutating func link(as fileName: String) throws(FileError) -> Bool {
    let name = try name()
    guard try subdirectory.directory.linkIfAbsent(name, as: fileName) else { return false }
    didPublish()
    _ = try subdirectory.directory.unlink(name)
    return true
  }

  /// Publishes the draft unless the name is in use, by whichever call the file system supports.
  mutating func commitOrLink(as fileName: String) throws(FileError) -> Bool {
    if let isNamed = try commit(as: fileName) { return isNamed }
    return try link(as: fileName)
  }

  /// Publishes the draft, and replaces a file that has the name.
  mutating func replace(_ fileName: String) throws(FileError) {
    let name = try name()
    try releaseLease()
    switch place {
    case .inBin(let recycled): try recycled.bin.directory.rename(name, to: fileName, in: subdirectory.directory)
    default: try subdirectory.directory.rename(name, to: fileName, in: subdirectory.directory)
    }
    didPublish()
  }

  /// Publishes the draft under a name that was recently free, unless it is recycled and another program, which does
  /// not hold the key, has created a file there, because a recycled file must not replace an unread record.
  mutating func commitNew(as fileName: String) throws(FileError) -> Bool {
    guard isRecycled else {
      try replace(fileName)
      return true
    }
    switch try renameIfAbsent(to: fileName) {
    case true: didPublish()
    case false: return false
    case nil: try replace(fileName)
    }
    return true
  }

  private mutating func renameIfAbsent(to fileName: String) throws(FileError) -> Bool? {
    let name = try name()
    try releaseLease()
    return switch place {
    case .inBin(let recycled):
      try recycled.bin.directory.renameIfAbsent(name, to: fileName, in: subdirectory.directory)
    default: try subdirectory.directory.renameIfAbsent(name, to: fileName)
    }
  }

  private mutating func didPublish() {
    switch place {
    case .beside(let name): names.forget(name)
    default: break
    }
    place = .published
  }

  /// Publishes the draft, and moves the file that had the name to the reserved room in the recycling bin.
  ///
  /// - Returns: The error that kept the displaced file from the bin, in which case it was unlinked.
  mutating func exchange(with fileName: String, into room: ReservedRoom) throws(FileError) -> FileError? {
    // The displaced record must not reappear after durable changes that others make from now on.
    let moment = RecyclingMoment(room.control, at: subdirectory.directory.moment)
    let name: String
    let isExchanged: Bool
    do throws(FileError) {
      name = try self.name()
      try releaseLease()
      isExchanged =
        switch place {
        case .inBin(let recycled):
          try recycled.bin.directory.exchange(name, with: fileName, in: subdirectory.directory)
        default: try subdirectory.directory.exchange(name, with: fileName, in: subdirectory.directory)
        }
      if !isExchanged { try replace(fileName) }
    } catch {
      room.giveBack()
      throw error
    }
    guard isExchanged else {
      room.giveBack()
      return nil
    }
    defer { didPublish() }
    switch place {
    case .inBin(let recycled):
      recycled.didExchange(for: room.file, since: moment)
      return nil
    default: break
    }
    do throws(FileError) {
      try room.put(name, in: subdirectory.directory)
      return nil
    } catch {
      // The record is published. A collection removes the old file if it cannot be unlinked now.
      _ = try? subdirectory.directory.unlink(name)
      return error
    }
  }

  /// Returns the name that the file has until it is published, and names an unnamed file.
  private mutating func name() throws(FileError) -> String {
    if let permissions = permissionsToGive {
      try file.setPermissions(permissions)
      permissionsToGive = nil
    }
    switch place {
    case .beside(let name): return name
    case .inBin(let recycled): return recycled.entry.name
    case .nowhere: break
    case .published: break
    }
    // While it has no name, only this process can lock it.
    _ = try file.tryLock()
    var name = ""
    for _ in 0...Self.tries {
      name = names.next()
      names.note(name, in: subdirectory)
      if try subdirectory.directory.name(file, ifAbsent: name) {
        place = .beside(name)
        return name
      }
      names.forget(name)
    }
    throw FileError(.linkUnnamed, Location(subdirectory.directory.path, name), .fileExists)
  }

  borrowing func isInPlace(as fileName: String) throws(FileError) -> Bool {
    guard let found = try subdirectory.directory.status(of: fileName) else { return false }
    return FileIdentity(found) == FileIdentity(try file.status())
  }

  borrowing func synchronize(_ level: BlobStore.Durability.Level) throws(FileError) {
    try file.synchronize(by: level)
  }

  mutating func makeDurable(_ level: BlobStore.Durability.Level) throws(FileError) {
    guard level > syncedLevel else { return }
    try synchronize(level)
    syncedLevel = level
    syncCount += 1
  }

  /// Notes that the file was changed after the last synchronization.
  mutating func wasWritten() { syncedLevel = .none }

  /// Releases the lease of a complete file, which does not change again until it is published.
  private mutating func releaseLease() throws(FileError) {
    guard isLeased else { return }
    isLeased = false
    try file.releaseLease()
  }
}

extension FileDraft {
  private static let tries = 8

  /// The reason why creation failed. It is not an error, because an error would be allocated for every store.
  private struct Obstacle {
    var call: SystemCall
    var errno: Errno
  }

  /// Creates a locked file, or sets `obstacle` if the name was in use or a collection removed the file between the
  /// calls. `permissions` receives the final permissions if they still have to be set.
  private static func createLocked(
    _ name: String, in directory: borrowing Directory, of ownership: FileOwnership,
    _ role: FileOwnership.FileRole, _ permissions: inout FilePermissions?, _ obstacle: inout Obstacle
  ) throws -> OpenFile? {
    let file: OpenFile
    do {
      file = try directory.createFile(name, permissions: .ownerReadWrite)
    } catch {
      guard error.errno == .fileExists else { throw error }
      obstacle = Obstacle(call: .open, errno: error.errno)
      return nil
    }
    do {
      guard try file.tryLock() else {
        obstacle = Obstacle(call: .lock, errno: .wouldBlock)
        _ = try directory.unlink(name)
        return nil
      }
      let status = try file.status()
      guard status.linkCount > 0 else { return nil }
      let wanted = try adopt(file, status, of: ownership, role)
      permissions = status.permissions == wanted ? nil : wanted
      return file
    } catch {
      // The error at hand is the one to report; what cannot be unlinked now, a collection takes.
      _ = try? directory.unlink(name)
      throw error
    }
  }
}

extension FileDraft {
  /// Gives the file the root's owner and group, and returns the permissions that it must get.
  private static func adopt(
    _ file: borrowing OpenFile, _ status: Stat, of ownership: FileOwnership, _ role: FileOwnership.FileRole
  ) throws(FileError) -> FilePermissions {
    let owner = ownership.ownershipToGive(status)
    if let (user, group) = owner { try file.setOwner(user: user, group: group) }
    return ownership.permissions(of: role, group: owner?.group ?? status.groupID)
  }
}

extension OpenFile {
  borrowing func synchronize(by level: BlobStore.Durability.Level) throws(FileError) {
    guard level > .none else { return }
    try synchronize(level == .full ? .full : .barrier)
  }
}
