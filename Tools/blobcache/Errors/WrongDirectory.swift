internal import Posix
internal import SystemPackage

/// A directory in which nothing was found, and nothing else shows that it is a cache: perhaps its path is wrong.
enum WrongDirectory {
  /// Names that a cache has at its root besides records: each of them shows that it is one.
  private static let signs = [".blobcache", ".blobcache.conf", "CACHEDIR.TAG", ".recycled", ".quarantine"]

  /// Says so where a directory without a record is no cache.
  ///
  /// - Returns: `no` if other files lie in it; `done` for an empty directory, which may become a cache.
  static func answer(_ directory: FilePath, _ options: DirectoryOptions) -> Answer {
    // The work on the directory went well; what keeps it from being looked at now changes nothing of that.
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
      // Leftovers of removed records, on a file system without control files.
      guard entry.kind == .directory, CachePlace.isSubdirectory(entry.name) else { return .otherFiles }
      contents = .cache
    }
    return contents
  }
}
