internal import Posix
internal import SystemPackage

/// A directory without records that does not look like a cache, so its path may be wrong.
enum WrongDirectory {
  /// The names of files and directories, besides records, that identify the root of a cache.
  private static let signs = [
    ".blobcache", ".blobcache.conf", ".blobcache.used", "CACHEDIR.TAG", ".recycled", ".quarantine",
  ]

  /// Reports a directory without records that is not a cache.
  ///
  /// - Returns: `no` if the directory contains other files, or `done` if it is empty, because it may become a cache.
  static func answer(_ directory: FilePath, _ options: DirectoryOptions) -> Answer {
    // The operation itself succeeded. An error of this check does not change its result.
    guard let contents = try? contents(of: directory) else { return .done }
    switch contents {
    case .cache: return .done
    case .nothing:
      if !options.quiet {
        StandardError.report("\(directory): an empty directory, and no cache yet: is the path right?")
      }
      return .done
    case .otherFiles:
      StandardError.report(
        "\(directory): no cache: other files, but no record and no control file: is the path right, and --flat?")
      return .no
    }
  }

  private enum Contents {
    case cache, nothing, otherFiles
  }

  private static func contents(of path: FilePath) throws -> Contents {
    guard let directory = try Directory(at: path, files: Files()) else { return .cache }
    for sign in signs where try directory.status(of: sign) != nil { return .cache }
    var contents = Contents.nothing
    var entries = try directory.entries()
    while let entry = try entries.next() {
      // Subdirectories remain after records are removed, on a file system without control files.
      guard entry.kind == .directory, CachePlace.isSubdirectory(entry.name) else { return .otherFiles }
      contents = .cache
    }
    return contents
  }
}
