package import SystemPackage

#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#endif

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
