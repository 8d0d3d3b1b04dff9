internal import CPosix
package import SystemPackage

#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#elseif canImport(Android)
  internal import Android
#endif

/// An open directory, through whose descriptor all files below are accessed.
///
/// Symbolic links are never followed. Names are single components unless an operation documents otherwise.
package struct Directory: ~Copyable, Sendable {
  let descriptor: CInt
  let location: Location
  let files: Files

  init(descriptor: CInt, location: Location, files: Files) {
    self.descriptor = descriptor
    self.location = location
    self.files = files
  }

  package var moment: Int64 { files.moment }

  deinit {
    // Nothing is written through a directory descriptor, so an error on closing loses nothing.
    try? files.close(descriptor, location)
  }

  /// Opens the directory at `path`, or returns `nil` if it is missing; links in the caller's path are followed.
  ///
  /// - Parameter name: The name in error messages, if it is not the path.
  package init?(at path: FilePath, shownAs name: FilePath? = nil, files: Files) throws(FileError) {
    let location = Location(name ?? path)
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
    try files.status(of: descriptor, location)
  }

  /// Syncs the directory's entries to the storage device.
  package func synchronize() throws(FileError) {
    try files.perform(.sync, location) { blob_sync_full(descriptor) }
  }

  package func setPermissions(_ permissions: FilePermissions) throws(FileError) {
    try files.perform(.setPermissions, location) { fchmod(descriptor, permissions.rawValue) }
  }

  package func setOwner(user: UserID?, group: GroupID?) throws(FileError) {
    try files.perform(.setOwner, location) { fchown(descriptor, user?.rawValue ?? .max, group?.rawValue ?? .max) }
  }

  /// Returns the reason why no file in the directory can be shared through a mapping, if there is one.
  package func mappingHazard() throws(FileError) -> MappingHazard? {
    let hazard = try files.perform(.volumeStatus, location) { blob_mapping_hazard(descriptor) }
    return MappingHazard(rawValue: hazard)
  }

  /// Returns the size of the volume, and the space that is available to unprivileged processes, in bytes.
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

  /// Returns the number of files that unprivileged processes may still create, or `nil` without such a limit.
  package func freeInodes() throws(FileError) -> UInt64? {
    var volume = statvfs()
    try files.perform(.volumeStatus, location) { unsafe fstatvfs(descriptor, &volume) }
    return volume.f_files == 0 ? nil : UInt64(volume.f_favail)
  }

  /// Tries to lock the directory for this open file description (flock(2)), or returns `false` if it is locked.
  package func tryLock() throws(FileError) -> Bool {
    LockableDescriptor.note(descriptor)
    do {
      try files.perform(.lock, location) { flock(descriptor, LOCK_EX | LOCK_NB) }
      return true
    } catch {
      guard error.errno == .wouldBlock else { throw error }
      return false
    }
  }

  package func reopened() throws(FileError) -> Directory {
    let opened = try files.perform(.openDirectory, location) {
      LockableDescriptor.open { unsafe blob_openat(descriptor, ".", directoryFlags, 0) }
    }
    return Directory(descriptor: opened, location: location, files: files)
  }

  /// Returns the status of a name without following a link as its last component, or `nil` if the name is missing.
  package func status(of name: String, in subdirectory: String = "") throws(FileError) -> Stat? {
    var raw = CInterop.Stat()
    do {
      try files.perform(.status, location.appending(name, in: subdirectory)) {
        unsafe withPath(name, in: subdirectory) { unsafe fstatat(descriptor, $0, &raw, AT_SYMLINK_NOFOLLOW) }
      }
      return Stat(rawValue: raw)
    } catch {
      guard error.errno == .noSuchFileOrDirectory else { throw error }
      return nil
    }
  }

  package func entries() throws(FileError) -> DirectoryStream {
    // A new descriptor, because a stream owns its descriptor and moves its position.
    let opened = try files.perform(.openDirectory, location) {
      unsafe blob_openat(descriptor, ".", directoryFlags, 0)
    }
    return try DirectoryStream(adopting: opened, location: location, files: files)
  }

  func at(_ name: String) -> Location { location.appending(name) }
}

let directoryFlags = O_RDONLY | O_DIRECTORY | O_CLOEXEC
