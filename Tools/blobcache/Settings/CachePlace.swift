internal import Posix
internal import SystemPackage

/// Where in a cache a directory lies.
///
/// The root says how its records are judged, and may be the directory above.
struct CachePlace {
  let root: FilePath
  /// nil for the root itself, and for a directory outside of caches.
  private let subdirectory: String?

  /// ControlFile.md, and Semantics.md, P16. A root has one of them once a program, or this tool, has changed something.
  private static let signs = [".blobcache", ".blobcache.conf"]

  init(of directory: FilePath) throws(FileError) {
    let canonical = try Files().canonical(directory)
    let parent = canonical.removingLastComponent()
    if let name = canonical.lastComponent?.string, Self.isSubdirectory(name), !Self.isRoot(directory),
      Self.isRoot(parent)
    {
      root = parent
      subdirectory = name
    } else {
      root = directory
      subdirectory = nil
    }
  }

  /// Whether what cannot be listed is the directory, or holds it.
  func isPart(of unlisted: String) -> Bool { unlisted.isEmpty || unlisted == subdirectory }

  /// - Parameter file: a path below the root.
  /// - Returns: the path below the directory; nil if it lies elsewhere.
  func relative(_ file: String) -> String? {
    guard let subdirectory else { return file }
    let prefix = subdirectory + "/"
    // By bytes: names that Swift takes for equal may be two.
    guard file.utf8.starts(with: prefix.utf8) else { return nil }
    return String(decoding: file.utf8.dropFirst(prefix.utf8.count), as: UTF8.self)
  }

  /// Whether records may lie in a directory of this name: Semantics.md, N5.
  static func isSubdirectory(_ name: String) -> Bool { (2...3).contains(name.utf16.count) }

  private static func isRoot(_ directory: FilePath) -> Bool {
    // If the directory cannot be looked at, the work itself finds out.
    signs.contains { (try? Files().status(of: directory.appending($0)))?.type == .regular }
  }
}
