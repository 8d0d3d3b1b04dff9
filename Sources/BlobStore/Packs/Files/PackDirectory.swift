internal import Posix
internal import SystemPackage

/// The directory `.packs` in the root, which contains the packs and their index.
final class PackDirectory: Sendable {
  static let name = OpenRoot.packsName

  let subdirectory: OpenSubdirectory
  var path: FilePath { subdirectory.directory.path }
  let ownership: FileOwnership
  /// The access mode for packs and indexes, which is `read` in a process that may not write to them.
  let access: FileAccess

  private init(_ directory: consuming Directory, _ ownership: FileOwnership, for access: FileAccess) {
    subdirectory = OpenSubdirectory(directory)
    self.ownership = ownership
    self.access = access
  }

  /// Opens the directory, or returns `nil` if it is missing or something else has its name.
  ///
  /// System calls: `openat(2)`, `fstat(2)`. A created directory has the root's permissions and owner.
  static func open(
    in root: OpenRoot, makesIt: Bool, for access: FileAccess = .readWrite
  ) throws -> PackDirectory? {
    guard let directory = try root.ownDirectory(name, makesIt: makesIt) else { return nil }
    return PackDirectory(directory, root.ownership, for: access)
  }

  /// A Boolean value that indicates whether a pack exists. The first pack is removed only with the others.
  var hasPacks: Bool {
    get throws(FileError) { try subdirectory.directory.status(of: PackFile.name(0)) != nil }
  }

  /// Returns whether a name is free or belongs to a file of the cache. System call: `fstatat(2)`.
  func mayReplace(_ name: String) throws(FileError) -> Bool {
    guard let status = try subdirectory.directory.status(of: name) else { return true }
    return status.type == .regular && ownership.owns(status)
  }

  /// Unlinks a file of the cache, and nothing else. System calls: `fstatat(2)`, `unlinkat(2)`.
  func unlinkOwn(_ name: String) throws(FileError) {
    if try mayReplace(name) { _ = try subdirectory.directory.unlink(name) }
  }

  func isCurrent(in root: OpenRoot) throws(FileError) -> Bool {
    guard let named = try root.directory.status(of: Self.name) else { return false }
    return FileIdentity(named) == FileIdentity(try subdirectory.directory.status())
  }
}
