internal import Posix
internal import SystemPackage

/// The position of a directory in a cache.
///
/// The root determines how its records are judged. It can be the parent of the directory.
struct CachePlace {
  let root: FilePath
  /// The name of the subdirectory, or `nil` for the root and for a directory outside of caches.
  private let subdirectory: String?

  /// ControlFile.md, and Semantics.md, P16. A root has one of them after the first change by any program.
  private static let signs = [".blobcache", ".blobcache.conf", ".blobcache.used"]

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

  /// Returns whether a path that could not be listed is the directory or contains it.
  func isPart(of unlisted: String) -> Bool { unlisted.isEmpty || unlisted == subdirectory }

  /// - Parameter file: A path relative to the root.
  /// - Returns: The path relative to the directory, or `nil` if it is outside of it.
  func relative(_ file: String) -> String? {
    guard let subdirectory else { return file }
    let prefix = subdirectory + "/"
    // Compared by bytes, because Swift treats canonically equivalent names as equal.
    guard file.utf8.starts(with: prefix.utf8) else { return nil }
    return String(decoding: file.utf8.dropFirst(prefix.utf8.count), as: UTF8.self)
  }

  /// Returns whether a directory of this name can contain records: Semantics.md, N5.
  static func isSubdirectory(_ name: String) -> Bool { (2...3).contains(name.utf16.count) }

  private static func isRoot(_ directory: FilePath) -> Bool {
    // If the status of a sign cannot be read, the operation itself reports the error.
    signs.contains { (try? Files().status(of: directory.appending($0)))?.type == .regular }
  }
}
