internal import CBlobRecord
package import SystemPackage

#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#endif

/// Owns one descriptor of a directory, and reaches everything below it through that descriptor, never through a
/// symbolic link.
///
/// Names passed to the operations are single components unless they say otherwise.
package struct Directory: ~Copyable, Sendable {
  let descriptor: CInt
  private let location: Location
  let files: Files

  private init(descriptor: CInt, location: Location, files: Files) {
    self.descriptor = descriptor
    self.location = location
    self.files = files
  }

  deinit {
    // Nothing is written through a directory's descriptor, so closing it loses nothing.
    try? files.close(descriptor, location)
  }

  /// Opens the directory at `path`, following links: above the root, paths are the caller's business.
  ///
  /// - Returns: nil if there is none.
  package init?(at path: FilePath, files: Files) throws(FileError) {
    let location = Location(path)
    do {
      descriptor = try files.perform(.openDirectory, location) {
        unsafe path.withPlatformString { unsafe blob_openat(AT_FDCWD, $0, directoryFlags, 0) }
      }
    } catch {
      guard error.errno == .noSuchFileOrDirectory else { throw error }
      return nil
    }
    self.location = location
    self.files = files
  }

  package var path: FilePath { location.path }

  package func status() throws(FileError) -> Stat {
    var raw = CInterop.Stat()
    try files.perform(.status, location) { unsafe blob_status(descriptor, &raw) }
    return Stat(rawValue: raw)
  }

  /// Puts the directory's entries on the medium.
  package func synchronize() throws(FileError) {
    try files.perform(.sync, location) { blob_sync_full(descriptor) }
  }

  package func setPermissions(_ permissions: FilePermissions) throws(FileError) {
    try files.perform(.setPermissions, location) { fchmod(descriptor, permissions.rawValue) }
  }

  package func setOwner(user: UserID?, group: GroupID?) throws(FileError) {
    try files.perform(.setOwner, location) { fchown(descriptor, user?.rawValue ?? .max, group?.rawValue ?? .max) }
  }

  /// Bytes on the volume: all, and those an unprivileged process may still take.
  package func volumeSpace() throws(FileError) -> (total: Int64, available: Int64) {
    var volume = statvfs()
    try files.perform(.volumeStatus, location) { unsafe fstatvfs(descriptor, &volume) }
    let unit = UInt64(volume.f_frsize)
    func bytes(_ blocks: some BinaryInteger) -> Int64 {
      let (product, overflow) = UInt64(blocks).multipliedReportingOverflow(by: unit)
      return overflow ? .max : Int64(clamping: product)
    }
    return (bytes(volume.f_blocks), bytes(volume.f_bavail))
  }

  private func at(_ name: String) -> Location {
    Location(location.directory, location.name.isEmpty ? name : location.name + "/" + name)
  }
}

/// Calls `open` until it meets no file with a lease on it. Such a file is on its way to another name: what has this one
/// by now, the next look finds. What somebody holds a lease on for longer, some other program, is an error.
func passingLeases<Result>(_ open: () throws(FileError) -> Result) throws(FileError) -> Result {
  var triesLeft = 16
  while true {
    do {
      return try open()
    } catch {
      guard error.errno == .wouldBlock, triesLeft > 0 else { throw error }
      triesLeft -= 1
      // At once at first; then 50 us and twice as long each time, 13 ms in all.
      if triesLeft < 8 { SystemClock.sleep(microseconds: 50 << (7 - triesLeft)) }
    }
  }
}

private let directoryFlags = O_RDONLY | O_DIRECTORY | O_CLOEXEC
let fileFlags = O_NONBLOCK | O_CLOEXEC | O_NOCTTY

// MARK: - Files

/// What lies at a name that was opened as a file.
package enum OpenedFile: ~Copyable {
  case regular(OpenFile, Stat)
  case absent
  /// A directory, link, FIFO, socket or device, or a path that leads through something that is no directory.
  case notRegular
}

/// What an open file may be used for.
package enum FileAccess: Sendable {
  case read, readWrite

  fileprivate var flags: CInt {
    switch self {
    case .read: O_RDONLY
    case .readWrite: O_RDWR
    }
  }
}

extension Directory {
  /// Opens the regular file at `relativePath`, which may name a subdirectory too; never waits for a FIFO, or for a lease
  /// to be broken: what is leased is looked up again, for some milliseconds.
  ///
  /// System calls: `openat2(2)` (a walk where it is refused) and `fstat(2)`.
  ///
  /// - Throws: EAGAIN if somebody holds a lease on the file all the while.
  package func openFile(_ relativePath: String, for access: FileAccess) throws(FileError) -> OpenedFile {
    let fileLocation = at(relativePath)
    let opened: CInt
    do {
      opened = try passingLeases { () throws(FileError) in
        try openBeneath(relativePath, access.flags | fileFlags, fileLocation)
      }
    } catch {
      switch error.errno {
      case .noSuchFileOrDirectory: return .absent
      // A link; a file for a subdirectory; a socket or a FIFO nobody reads; a directory; a device without a driver.
      case .tooManySymbolicLinkLevels, .notDirectory, .noSuchAddressOrDevice, .isDirectory,
        .operationNotSupportedByDevice:
        return .notRegular
      default: throw error
      }
    }
    let file = OpenFile(descriptor: opened, location: fileLocation, files: files)
    let status = try file.status()
    return status.type == .regular ? .regular(file, status) : .notRegular
  }

  private func openBeneath(_ relativePath: String, _ flags: CInt, _ location: Location) throws(FileError) -> CInt {
    if !files.refusesOpenBeneath {
      do {
        return try files.perform(.openBeneath, location) {
          unsafe relativePath.withCString { unsafe blob_open_beneath(descriptor, $0, flags, 0) }
        }
      } catch {
        // A kernel before 5.6 lacks the call; a seccomp filter may refuse what it does not know with EPERM.
        guard error.errno == .noFunction || error.errno == .notPermitted else { throw error }
        let refusal = error.errno
        do throws(FileError) {
          let opened = try walk(relativePath, flags, location)
          files.noteOpenBeneathRefused()
          return opened
        } catch {
          // The walk met the same EPERM: it was the file's.
          if error.errno != refusal { files.noteOpenBeneathRefused() }
          throw error
        }
      }
    }
    return try walk(relativePath, flags, location)
  }

  /// Opens component by component, each without following a link.
  private func walk(_ relativePath: String, _ flags: CInt, _ location: Location) throws(FileError) -> CInt {
    guard let slash = relativePath.utf8.firstIndex(of: UInt8(ascii: "/")) else {
      return try files.perform(.open, location) {
        unsafe relativePath.withCString { unsafe blob_openat(descriptor, $0, flags | O_NOFOLLOW, 0) }
      }
    }
    let name = String(relativePath[..<slash])
    guard let subdirectory = try openSubdirectory(name) else {
      throw FileError(.open, location, .noSuchFileOrDirectory)
    }
    return try subdirectory.walk(String(relativePath[relativePath.utf8.index(after: slash)...]), flags, location)
  }

  /// Opens the file `name`, itself no link, for reading and writing; never waits.
  func openFileToWrite(_ name: String) throws(FileError) -> OpenFile {
    let fileLocation = at(name)
    let opened = try files.perform(.open, fileLocation) {
      unsafe name.withCString { unsafe blob_openat(descriptor, $0, O_RDWR | O_NOFOLLOW | fileFlags, 0) }
    }
    return OpenFile(descriptor: opened, location: fileLocation, files: files)
  }

  /// Creates a file that must not exist yet, for reading and writing.
  package func createFile(_ name: String, permissions: FilePermissions) throws(FileError) -> OpenFile {
    let fileLocation = at(name)
    let created = try files.perform(.open, fileLocation) {
      unsafe name.withCString {
        unsafe blob_openat(
          descriptor, $0, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | fileFlags, permissions.rawValue)
      }
    }
    return OpenFile(descriptor: created, location: fileLocation, files: files)
  }

  /// - Returns: false if there was no such file.
  package func unlink(_ name: String) throws(FileError) -> Bool {
    do {
      try files.perform(.unlink, at(name)) { unsafe name.withCString { unsafe unlinkat(descriptor, $0, 0) } }
      return true
    } catch {
      guard error.errno == .noSuchFileOrDirectory else { throw error }
      return false
    }
  }

  package func rename(_ name: String, to newName: String) throws(FileError) {
    try rename(name, to: newName, in: self)
  }

  package func rename(_ name: String, to newName: String, in target: borrowing Directory) throws(FileError) {
    let targetDescriptor = target.descriptor
    try files.perform(.rename, target.at(newName)) {
      unsafe name.withCString { old in
        unsafe newName.withCString { new in unsafe renameat(descriptor, old, targetDescriptor, new) }
      }
    }
  }

  /// Gives two files each other's names, by one call: neither name is ever without a file.
  ///
  /// - Returns: false where the file system cannot do it.
  /// - Throws: ENOENT if either is missing.
  package func exchange(
    _ name: String, with otherName: String, in other: borrowing Directory
  ) throws(FileError) -> Bool {
    let otherDescriptor = other.descriptor
    do {
      try files.perform(.renameExchange, other.at(otherName)) {
        unsafe name.withCString { first in
          unsafe otherName.withCString { second in
            unsafe blob_rename_exchange(descriptor, first, otherDescriptor, second)
          }
        }
      }
      return true
    } catch {
      switch error.errno {
      case .invalidArgument, .noFunction, .notSupported: return false
      default: throw error
      }
    }
  }

  /// Renames unless the new name is taken.
  ///
  /// - Returns: nil where the file system cannot tell: look first, then `rename`. False if the name is taken.
  package func renameIfAbsent(_ name: String, to newName: String) throws(FileError) -> Bool? {
    try renameIfAbsent(name, to: newName, in: self)
  }

  package func renameIfAbsent(
    _ name: String, to newName: String, in target: borrowing Directory
  ) throws(FileError) -> Bool? {
    let targetDescriptor = target.descriptor
    do {
      try files.perform(.renameNoReplace, target.at(newName)) {
        unsafe name.withCString { old in
          unsafe newName.withCString { new in unsafe blob_rename_no_replace(descriptor, old, targetDescriptor, new) }
        }
      }
      return true
    } catch {
      switch error.errno {
      case .fileExists: return false
      case .invalidArgument, .noFunction, .notSupported: return nil
      default: throw error
      }
    }
  }
}

// MARK: - Subdirectories

extension Directory {
  /// Opens the directory `name`, itself no link.
  ///
  /// - Returns: nil if there is none.
  package func openSubdirectory(_ name: String) throws(FileError) -> Directory? {
    let directoryLocation = at(name)
    do {
      let opened = try files.perform(.openDirectory, directoryLocation) {
        unsafe name.withCString { unsafe blob_openat(descriptor, $0, directoryFlags | O_NOFOLLOW, 0) }
      }
      return Directory(descriptor: opened, location: directoryLocation, files: files)
    } catch {
      guard error.errno == .noSuchFileOrDirectory else { throw error }
      return nil
    }
  }

  /// - Returns: false if the name was taken.
  package func makeSubdirectory(_ name: String, permissions: FilePermissions) throws(FileError) -> Bool {
    do {
      try files.perform(.makeDirectory, at(name)) {
        unsafe name.withCString { unsafe mkdirat(descriptor, $0, permissions.rawValue) }
      }
      return true
    } catch {
      guard error.errno == .fileExists else { throw error }
      return false
    }
  }

  /// - Returns: false if it was not empty, or not there.
  package func removeSubdirectory(_ name: String) throws(FileError) -> Bool {
    do {
      try files.perform(.removeDirectory, at(name)) {
        unsafe name.withCString { unsafe unlinkat(descriptor, $0, AT_REMOVEDIR) }
      }
      return true
    } catch {
      switch error.errno {
      case .directoryNotEmpty, .fileExists, .noSuchFileOrDirectory: return false
      default: throw error
      }
    }
  }

  /// Tries to lock the directory for this open file description alone: flock(2).
  ///
  /// - Returns: false if another description holds the lock.
  package func tryLock() throws(FileError) -> Bool {
    do {
      try files.perform(.lock, location) { flock(descriptor, LOCK_EX | LOCK_NB) }
      return true
    } catch {
      guard error.errno == .wouldBlock else { throw error }
      return false
    }
  }

  /// Gives a file a second name, unless that is taken.
  ///
  /// - Returns: false if the name is taken.
  package func linkIfAbsent(_ name: String, as newName: String) throws(FileError) -> Bool {
    do {
      try files.perform(.link, at(newName)) {
        unsafe name.withCString { old in
          unsafe newName.withCString { new in unsafe linkat(descriptor, old, descriptor, new, 0) }
        }
      }
      return true
    } catch {
      guard error.errno == .fileExists else { throw error }
      return false
    }
  }

  /// The same directory by a descriptor of its own.
  package func reopened() throws(FileError) -> Directory {
    let opened = try files.perform(.openDirectory, location) {
      unsafe blob_openat(descriptor, ".", directoryFlags, 0)
    }
    return Directory(descriptor: opened, location: location, files: files)
  }

  /// The status of what has this name, itself no link followed; nil if nothing does.
  package func status(of name: String) throws(FileError) -> Stat? {
    var raw = CInterop.Stat()
    do {
      try files.perform(.status, at(name)) {
        unsafe name.withCString { unsafe fstatat(descriptor, $0, &raw, AT_SYMLINK_NOFOLLOW) }
      }
      return Stat(rawValue: raw)
    } catch {
      guard error.errno == .noSuchFileOrDirectory else { throw error }
      return nil
    }
  }

  /// The directory's entries, in the order of the file system.
  package func entries() throws(FileError) -> DirectoryStream {
    // A descriptor of its own: a stream owns its descriptor and moves its position.
    let opened = try files.perform(.openDirectory, location) {
      unsafe blob_openat(descriptor, ".", directoryFlags, 0)
    }
    return try DirectoryStream(adopting: opened, location: location, files: files)
  }
}

// MARK: - Making directories

extension Files {
  /// Makes the directory at `path` and those above it that are missing; those get what the process's mask leaves of
  /// 0777.
  ///
  /// - Returns: the directories in which an entry was made, for the caller to sync; empty if `path` was there.
  package func makeDirectories(at path: FilePath, permissions: FilePermissions) throws(FileError) -> [FilePath] {
    let location = Location(path)
    let parent = path.removingLastComponent()
    func make() throws(FileError) {
      try perform(.makeDirectory, location) {
        unsafe path.withPlatformString { unsafe mkdir($0, permissions.rawValue) }
      }
    }
    let container = parent.isEmpty ? FilePath(".") : parent
    do {
      try make()
      return [container]
    } catch  where error.errno == .fileExists {
      return []
    } catch  where error.errno == .noSuchFileOrDirectory && !parent.isEmpty && parent != path {
      var changed = try makeDirectories(at: parent, permissions: FilePermissions(rawValue: 0o777))
      do {
        try make()
        changed.append(container)
      } catch  where error.errno == .fileExists {
        // Another process was faster.
      }
      return changed
    }
  }

  /// The status of what lies at `path`, links followed; nil if nothing does.
  package func status(of path: FilePath) throws(FileError) -> Stat? {
    var raw = CInterop.Stat()
    do {
      try perform(.status, Location(path)) { unsafe path.withPlatformString { unsafe stat($0, &raw) } }
      return Stat(rawValue: raw)
    } catch {
      guard error.errno == .noSuchFileOrDirectory else { throw error }
      return nil
    }
  }
}
