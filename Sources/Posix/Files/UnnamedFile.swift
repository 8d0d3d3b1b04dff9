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

/// A file without a name, open for reading and writing.
///
/// No other process can reach it, and it goes when it is closed, however its process ends. Linux has such files on most
/// file systems (open(2), `O_TMPFILE`); Darwin has none.
///
/// On ext4, writing one and naming it takes a third less time than a create, a write and a rename. The directory
/// changes once instead of three times.
package enum UnnamedFile {
  /// Its name in errors.
  package static let label = ".unnamed"
}

extension Directory {
  /// Creates a file without a name, to be named in this directory.
  ///
  /// - Returns: nil where there are no such files, or none may be made. The caller's try of a named file then gives the
  ///   reason.
  package func createUnnamedFile(permissions: FilePermissions) throws(FileError) -> OpenFile? {
    guard !files.refusesUnnamedFiles else { return nil }
    let fileLocation = at(UnnamedFile.label)
    do {
      let created = try files.perform(.openUnnamed, fileLocation) {
        LockableDescriptor.open { blob_create_unnamed(descriptor, fileFlags, permissions.rawValue) }
      }
      return OpenFile(descriptor: created, location: fileLocation, files: files)
    } catch {
      switch error.errno {
      // EISDIR is what a kernel before 3.11 makes of the flags.
      case .notSupported, .isDirectory, .invalidArgument, .noFunction:
        files.noteUnnamedFilesRefused()
        return nil
      // ext4 says EPERM where the directory was removed, and others ENOENT.
      case .notPermitted, .permissionDenied, .noSuchFileOrDirectory: return nil
      default: throw error
      }
    }
  }

  /// Creates a file that lies in memory alone, for its owner.
  ///
  /// - Returns: nil where the system has no such files, or a filter refuses them.
  package func createMemoryFile() throws(FileError) -> OpenFile? {
    let fileLocation = at(UnnamedFile.label)
    do {
      let created = try files.perform(.openMemory, fileLocation) { blob_create_memory_file() }
      let file = OpenFile(descriptor: created, location: fileLocation, files: files)
      try file.setPermissions(.ownerReadWrite)
      return file
    } catch {
      switch error.errno {
      case .noFunction, .notSupported, .notPermitted, .permissionDenied: return nil
      default: throw error
      }
    }
  }

  /// Gives a file without a name this one, unless that is taken.
  ///
  /// - Returns: false if it is taken.
  /// - Throws: ENOENT if the directory was removed. An error which says that no file can be named so is remembered: see
  ///   `Files.refusesUnnamedFiles`.
  package func name(_ unnamed: borrowing OpenFile, ifAbsent name: String) throws(FileError) -> Bool {
    let unnamedDescriptor = unnamed.descriptor
    do {
      try files.perform(.linkUnnamed, at(name)) {
        unsafe name.withCString { unsafe blob_link_unnamed(unnamedDescriptor, descriptor, $0) }
      }
      return true
    } catch {
      switch error.errno {
      case .fileExists: return false
      case .noSuchFileOrDirectory:
        // Without privileges, on a kernel before 6.10 and without /proc, this is not said of the directory.
        if try status().linkCount > 0 { files.noteUnnamedFilesRefused() }
      case .notPermitted, .permissionDenied, .notSupported, .invalidArgument, .noFunction, .improperLink:
        files.noteUnnamedFilesRefused()
      default: break
      }
      throw error
    }
  }
}
