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

extension Files {
  /// Creates the directory at `path` and its missing parents.
  ///
  /// Parents have the permissions 0777 as limited by the umask. If the superuser creates a directory, it gets the
  /// owner and the group of its parent, unless the superuser owns the parent.
  ///
  /// - Returns: The directories with a new entry, which the caller has to sync; empty if `path` existed.
  package func makeDirectories(at path: FilePath, permissions: FilePermissions) throws(FileError) -> [FilePath] {
    var changed: [FilePath] = []
    // Iterative, because paths may be deep and thread stacks small.
    var missing: [FilePath] = []
    var path = path
    while true {
      let parent = path.removingLastComponent()
      do {
        let permissions = missing.isEmpty ? permissions : FilePermissions(rawValue: 0o777)
        if let container = try makeDirectory(at: path, permissions) { changed.append(container) }
        break
      } catch  where error.errno == .noSuchFileOrDirectory && !parent.isEmpty && parent != path {
        missing.append(path)
        path = parent
      }
    }
    while let path = missing.popLast() {
      let permissions = missing.isEmpty ? permissions : FilePermissions(rawValue: 0o777)
      if let container = try makeDirectory(at: path, permissions) { changed.append(container) }
    }
    return changed
  }

  /// - Returns: The parent of the new directory, or `nil` if the path existed.
  private func makeDirectory(at path: FilePath, _ permissions: FilePermissions) throws(FileError) -> FilePath? {
    do {
      try perform(.makeDirectory, Location(path)) {
        unsafe path.withPlatformString { unsafe mkdir($0, permissions.rawValue) }
      }
    } catch  where error.errno == .fileExists {
      return nil
    }
    let parent = path.removingLastComponent()
    let container = parent.isEmpty ? FilePath(".") : parent
    try giveToOwner(of: container, path)
    return container
  }

  /// Changes the owner of a directory that the superuser has just created to the owner of its parent.
  ///
  /// Otherwise, such a directory in a user's home would lock that user out. The change uses descriptors and requires
  /// an empty directory of the superuser, because the user may replace the directory at any moment.
  private func giveToOwner(of container: FilePath, _ path: FilePath) throws(FileError) {
    guard Credentials.user.rawValue == 0, let name = path.lastComponent?.string,
      let container = try Directory(at: container, files: self)
    else { return }
    let status = try container.status()
    guard status.userID.rawValue != 0, let made = try container.openSubdirectory(name),
      try made.status().userID.rawValue == 0
    else { return }
    var entries = try made.entries()
    guard try entries.next() == nil else { return }
    try made.setOwner(user: status.userID, group: status.groupID)
  }

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

extension Directory {
  /// Opens the directory `name`, which must not be a link, or returns `nil` if it is missing.
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

  /// - Returns: `false` if the name existed.
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

  /// - Returns: `false` if the directory was missing or not empty.
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
}
