internal import BlobRecord
internal import Posix
internal import Synchronization
internal import SystemPackage

/// A record file in the making: a new one, or a dead one in the recycling bin that is overwritten. If it is not
/// published, a new one is unlinked in the end, and a dead one stays where it is.
///
/// A new one has no name where the system allows that (`UnnamedFile`). No other process reaches it then, and it
/// vanishes with its process. A file with a temporary name is locked by its writer, so a collection tells it from one
/// whose writer is gone. A dead one is leased until the call before the one that publishes it (`RecyclingBin`).
struct FileDraft: ~Copyable {
  /// Where it gets its name.
  let subdirectory: OpenSubdirectory
  let file: OpenFile
  private let names: TemporaryNames
  private var place: Place
  private var isLeased = false
  /// How durably it is on the medium, as it is now.
  private(set) var syncedLevel = BlobStore.Durability.Level.none
  /// How often that was asked for.
  private(set) var syncCount = 0
  /// What it gets once it is whole. With a temporary name, only its writer's user may open it: a process that can open
  /// a file can lock it, and a collection leaves locked files.
  private var permissionsToGive: FilePermissions?

  /// Where it lies.
  private enum Place: ~Copyable {
    case nowhere
    /// In `subdirectory`, under this name.
    case beside(String)
    case inBin(RecycledPlace)
    case published
  }

  /// Creates a file with a name in `subdirectory`, with the permissions and ownership that the root gives its files.
  ///
  /// System calls: `openat(2)`, `flock(2)`, `fstat(2)`.
  ///
  /// - Throws: ENOENT if the directory was removed: try again.
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

  /// Takes a file that has no name, and gives it the permissions and ownership that the root gives its files.
  ///
  /// System call: `fstat(2)`.
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

  /// Takes a file from the recycling bin.
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

  /// Whether it is a file from the recycling bin. Nothing may be written to it after the first attempt to publish it.
  var isRecycled: Bool {
    switch place {
    case .inBin: true
    default: false
    }
  }

  /// Whether its record may still follow what the file has held.
  var isStillSafe: Bool {
    switch place {
    case .inBin(let recycled): recycled.isStillSafe
    default: true
    }
  }

  /// How it was made, before it has its name.
  var kind: DraftAttempts.Kind {
    switch place {
    case .inBin: .recycled
    case .nowhere: .unnamed
    case .beside: .named
    case .published: .named
    }
  }

  /// Writes the record, and cuts off what a recycled file has beyond it.
  ///
  /// - Parameter write: fills the file, and may complete the header.
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

  /// Takes the name unless something has it.
  ///
  /// - Returns: nil where the file system cannot tell.
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

  /// Takes the name unless something has it, where `commit` cannot tell. The temporary name goes too.
  mutating func link(as fileName: String) throws(FileError) -> Bool {
    let name = try name()
    guard try subdirectory.directory.linkIfAbsent(name, as: fileName) else { return false }
    didPublish()
    _ = try subdirectory.directory.unlink(name)
    return true
  }

  /// Takes the name unless something has it, in the way that the file system knows.
  mutating func commitOrLink(as fileName: String) throws(FileError) -> Bool {
    if let isNamed = try commit(as: fileName) { return isNamed }
    return try link(as: fileName)
  }

  /// Takes the name from the file that has it, if one does.
  mutating func replace(_ fileName: String) throws(FileError) {
    let name = try name()
    try releaseLease()
    switch place {
    case .inBin(let recycled): try recycled.bin.directory.rename(name, to: fileName, in: subdirectory.directory)
    default: try subdirectory.directory.rename(name, to: fileName, in: subdirectory.directory)
    }
    didPublish()
  }

  /// Takes a name that was free a moment ago. Another program, which does not hold the key, may have put something there
  /// since.
  ///
  /// - Returns: false in that case, for a file from the recycling bin. Such a file must not be published over one whose
  ///   record was not read.
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

  /// Takes the name, and puts the file that had it into the recycling bin.
  ///
  /// - Parameter room: for the displaced file; given back if it is not needed.
  /// - Returns: the error that kept the displaced file from the bin; it was unlinked then.
  mutating func exchange(with fileName: String, into room: ReservedRoom) throws(FileError) -> FileError? {
    // The displaced record must not come back after changes that others make durably from here on.
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
      // The record is published; what cannot be unlinked now, a collection takes.
      _ = try? subdirectory.directory.unlink(name)
      return error
    }
  }

  /// The name it has until it is published, beside its record's or in the recycling bin. A file without a name gets one
  /// now.
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

  /// Whether a published record still has its name.
  borrowing func isInPlace(as fileName: String) throws(FileError) -> Bool {
    guard let found = try subdirectory.directory.status(of: fileName) else { return false }
    return FileIdentity(found) == FileIdentity(try file.status())
  }

  /// Brings the record to the medium, as far as the level asks for that.
  borrowing func synchronize(_ level: BlobStore.Durability.Level) throws(FileError) {
    try file.synchronize(by: level)
  }

  /// Brings the record to the medium, unless it is there as durably already.
  mutating func makeDurable(_ level: BlobStore.Durability.Level) throws(FileError) {
    guard level > syncedLevel else { return }
    try synchronize(level)
    syncedLevel = level
    syncCount += 1
  }

  /// Something was written that is not on the medium.
  mutating func wasWritten() { syncedLevel = .none }

  /// The file is whole. It stays as it is until it is a record.
  private mutating func releaseLease() throws(FileError) {
    guard isLeased else { return }
    isLeased = false
    try file.releaseLease()
  }
}

extension FileDraft {
  /// How many further names are tried where one is taken.
  private static let tries = 8

  /// Why there is no file yet. Not an error so far, which would be allocated for every store.
  private struct Obstacle {
    var call: SystemCall
    var errno: Errno
  }

  /// - Parameters:
  ///   - permissions: receives the file's final permissions, if it does not have them yet.
  ///   - obstacle: receives why there is no file.
  /// - Returns: nil if the name was taken, or a collection came between the calls and removed the file.
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
  /// Gives the file the root's owner and group.
  ///
  /// - Returns: the permissions that it must get.
  private static func adopt(
    _ file: borrowing OpenFile, _ status: Stat, of ownership: FileOwnership, _ role: FileOwnership.FileRole
  ) throws(FileError) -> FilePermissions {
    let owner = ownership.ownershipToGive(status)
    if let (user, group) = owner { try file.setOwner(user: user, group: group) }
    return ownership.permissions(of: role, group: owner?.group ?? status.groupID)
  }
}

extension OpenFile {
  /// Brings what was written to the medium, as far as the level asks for that.
  borrowing func synchronize(by level: BlobStore.Durability.Level) throws(FileError) {
    guard level > .none else { return }
    try synchronize(level == .full ? .full : .barrier)
  }
}
