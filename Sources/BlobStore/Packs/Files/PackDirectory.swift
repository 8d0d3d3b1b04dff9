internal import Posix
internal import SystemPackage

/// `.packs` at the root: the packs that hold small records, and their index.
final class PackDirectory: Sendable {
  static let name = ".packs"

  let subdirectory: OpenSubdirectory
  var path: FilePath { subdirectory.directory.path }
  /// Whose files are packs.
  let ownership: FileOwnership
  /// For what packs and indexes are opened: `read` by a process that may not write to them.
  let access: FileAccess

  private init(_ directory: consuming Directory, _ ownership: FileOwnership, for access: FileAccess) {
    subdirectory = OpenSubdirectory(directory)
    self.ownership = ownership
    self.access = access
  }

  /// Opens the directory of a root.
  ///
  /// System calls: `openat(2)`, `fstat(2)`, and those that make a missing directory.
  ///
  /// - Parameter makesIt: whether a missing one is made, with the root's permissions and owner.
  /// - Returns: nil if it is missing, or something else has its name: then the cache has no packs.
  static func open(
    in root: OpenRoot, makesIt: Bool, for access: FileAccess = .readWrite
  ) throws -> PackDirectory? {
    guard let directory = try root.ownDirectory(name, makesIt: makesIt) else { return nil }
    return PackDirectory(directory, root.ownership, for: access)
  }

  /// Whether a pack was made before: the first one stays.
  var hasPacks: Bool {
    get throws(FileError) { try subdirectory.directory.status(of: PackFile.name(0)) != nil }
  }

  /// Whether a file may take the name: it is free, or has one of the cache's own.
  ///
  /// System call: `fstatat(2)`.
  func mayReplace(_ name: String) throws(FileError) -> Bool {
    guard let status = try subdirectory.directory.status(of: name) else { return true }
    return status.type == .regular && ownership.owns(status)
  }

  /// Unlinks a file of the cache's own. What else has the name stays.
  ///
  /// System calls: `fstatat(2)`, `unlinkat(2)`.
  func unlinkOwn(_ name: String) throws(FileError) {
    if try mayReplace(name) { _ = try subdirectory.directory.unlink(name) }
  }

  /// Whether the name in the root still leads to it.
  func isCurrent(in root: OpenRoot) throws(FileError) -> Bool {
    guard let named = try root.directory.status(of: Self.name) else { return false }
    return FileIdentity(named) == FileIdentity(try subdirectory.directory.status())
  }
}
