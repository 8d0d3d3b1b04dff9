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

extension Directory {
  /// Opens the directory `name`, itself not a link.
  ///
  /// - Returns: nil if it is missing.
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
}
