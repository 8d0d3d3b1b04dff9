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
/// No process can open it, and it is removed when it is closed, even if its process crashes. Linux supports such
/// files on most file systems (open(2), `O_TMPFILE`); Darwin does not.
///
/// On ext4, writing an unnamed file and linking it takes a third less time than create, write and rename, because the
/// directory changes once instead of three times.
package enum UnnamedFile {
  package static let label = ".unnamed"
}

extension Directory {
  /// Creates a file without a name, which can be linked into this directory later, or returns `nil`.
  ///
  /// The caller then creates a named file, whose error has the reason.
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
      // A kernel before 3.11 returns EISDIR for the flags.
      case .notSupported, .isDirectory, .invalidArgument, .noFunction:
        files.noteUnnamedFilesRefused()
        return nil
      // If the directory was removed, ext4 returns EPERM, and other file systems return ENOENT.
      case .notPermitted, .permissionDenied, .noSuchFileOrDirectory: return nil
      default: throw error
      }
    }
  }

  /// Creates a file in memory for its owner, or returns `nil` if the system or a filter does not allow it.
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

  /// Links an unnamed file to a name in this directory, or returns `false` if the name exists.
  ///
  /// - Throws: ENOENT if the directory was removed. `Files.refusesUnnamedFiles` records errors of all such files.
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
        // Without privileges, on a kernel before 6.10 and without /proc, the error does not concern the directory.
        if try status().linkCount > 0 { files.noteUnnamedFilesRefused() }
      case .notPermitted, .permissionDenied, .notSupported, .invalidArgument, .noFunction, .improperLink:
        files.noteUnnamedFilesRefused()
      default: break
      }
      throw error
    }
  }
}
