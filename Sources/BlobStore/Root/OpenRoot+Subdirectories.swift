internal import BlobRecord
internal import Posix
internal import SystemPackage

extension OpenRoot {
  /// The number of times that a subdirectory is created again after a collection has removed it while it was empty.
  ///
  /// Passes cannot follow each other this quickly, so the bound only ends the loop on a faulty file system.
  static let removalsOutlasted = 100

  /// Opens the subdirectory of a record, or the root for the empty name. Throws `foreignFile` if it is not trusted.
  func openSubdirectory(_ name: String) throws -> Directory? {
    if name.isEmpty { return try directory.reopened() }
    guard let opened = try directory.openSubdirectory(name) else { return nil }
    if let distrust = try distrust(ofSubdirectory: opened) {
      throw BlobStoreError.foreignDirectory(at: opened.path, distrust)
    }
    return opened
  }

  /// Returns the reason for not trusting a subdirectory, in which other users may replace records with other files of
  /// the same owner.
  ///
  /// Only a root in which others may create names needs the check. A sticky subdirectory is trusted regardless of its
  /// owner, because otherwise the other users could not store the keys that belong there.
  func distrust(ofSubdirectory opened: borrowing Directory) throws(FileError) -> Distrust? {
    guard ownership.isSharedByStrangers else { return nil }
    return ownership.distrust(ofSubdirectory: try opened.status())
  }

  func trustsSubdirectory(_ name: String) throws(FileError) -> Bool {
    guard ownership.isSharedByStrangers, !name.isEmpty, let status = try directory.status(of: name),
      status.type == .directory
    else { return true }
    return ownership.distrust(ofSubdirectory: status) == nil
  }

  /// Makes a subdirectory that an older version created sticky, so that other users cannot take records out of it.
  func mendSubdirectory(_ name: String) {
    guard ownership.isSharedByStrangers, !name.isEmpty else { return }
    do throws(FileError) {
      guard let opened = try directory.openSubdirectory(name) else { return }
      let status = try opened.status()
      guard ownership.distrust(ofSubdirectory: status) == .writers else { return }
      try opened.setPermissions(status.permissions.union(.saveText))
    } catch {
      // The subdirectory stays foreign, and is reported as such.
    }
  }

  /// Opens a record's subdirectory, or creates it with the root's permissions and ownership.
  func openOrMakeSubdirectory(_ name: String) throws -> Directory {
    // A collection may remove the empty subdirectory before it is opened, but only once in each pass.
    var triesLeft = Self.removalsOutlasted
    while true {
      mendSubdirectory(name)
      if let directory = try openSubdirectory(name) { return directory }
      if triesLeft == 0 { throw FileError(.openDirectory, Location(directory.path, name), .noSuchFileOrDirectory) }
      triesLeft -= 1
      guard try directory.makeSubdirectory(name, permissions: ownership.subdirectoryPermissions()) else { continue }
      guard let made = try directory.openSubdirectory(name) else { continue }
      let status = try made.status()
      let (ownership, permissions) = ownership.wishes(forSubdirectory: status)
      // Another user may have replaced it in the meantime. Then it stays unchanged, and the next iteration opens it.
      guard try isJustMade(made, status, isAsWanted: ownership == nil && permissions == nil) else { continue }
      do {
        if let (user, group) = ownership { try made.setOwner(user: user, group: group) }
        if let permissions { try give(permissions, to: made) }
        return made
      } catch {
        // The error at hand is the one to report; a subdirectory that stays is empty, and a collection takes it.
        _ = try? directory.removeSubdirectory(name)
        throw error
      }
    }
  }

  /// Removes a subdirectory after its draft was moved. A store that needs the subdirectory creates it again.
  func removeSubdirectoryIfEmpty(_ name: String) {
    forgetSubdirectory(name)
    // An error does not matter, because the next collection removes an empty subdirectory too.
    _ = try? directory.removeSubdirectory(name)
  }

  private func give(_ permissions: FilePermissions, to made: borrowing Directory) throws(FileError) {
    let inherited = permissions.intersection(.setGroupID)
    do {
      try made.setPermissions(permissions)
    } catch  where error.errno == .notPermitted && !inherited.isEmpty {
      // A sandbox may refuse to set the inherited bit, without which each file is explicitly given its group.
      try made.setPermissions(permissions.subtracting(inherited))
    }
  }

  /// Returns whether a directory can be this process's new one: its own, on the root's volume, and empty.
  ///
  /// Only a directory that needs other permissions or another owner is listed.
  private func isJustMade(
    _ made: borrowing Directory, _ status: Stat, isAsWanted: Bool
  ) throws(FileError) -> Bool {
    guard ownership.isOwn(status) else { return false }
    if isAsWanted { return true }
    do {
      var entries = try made.entries()
      return try !entries.advance()
    } catch  where error.errno == .noSuchFileOrDirectory {
      // A collection has already removed it.
      return false
    }
  }
}

// MARK: - Directories of the cache itself

extension OpenRoot {
  /// Opens a directory of the cache that contains no records, or creates it with the root's permissions and owner.
  ///
  /// System calls: `openat(2)`, `fstat(2)`, and additional ones to create a missing directory.
  ///
  /// - Returns: `nil` if the directory is missing, its owner is not trusted, or another file has its name.
  func ownDirectory(_ name: String, makesIt: Bool) throws -> Directory? {
    do {
      guard let directory = try makesIt ? openOrMakeSubdirectory(name) : openSubdirectory(name),
        try ownership.owners.distrust(of: directory.status()) == nil
      else { return nil }
      return directory
    } catch let error as FileError where error.errno == .notDirectory || error.errno == .tooManySymbolicLinkLevels {
      return nil
    } catch let error as BlobStoreError where error.code == .foreignFile {
      return nil
    }
  }
}

// MARK: - Directories of records

extension StoreCore {
  /// Returns the directory of a record, or `nil` if it is missing or not a directory.
  func recordSubdirectory(of path: RecordPath, _ open: OpenRoot) throws -> OpenSubdirectory? {
    do {
      return try open.subdirectory(path.subdirectory)
    } catch let error as FileError where error.errno == .notDirectory || error.errno == .tooManySymbolicLinkLevels {
      return nil
    } catch let error as BlobStoreError where error.code == .foreignFile {
      return nil
    }
  }

  /// Returns whether a file exists for a key, in addition to its packed record or instead of it. The lookup uses
  /// `fstatat(2)` and no cached state.
  func hasFile(_ path: RecordPath, in open: OpenRoot) throws -> Bool {
    do throws(FileError) {
      return try open.directory.status(of: path.fileName, in: path.subdirectory) != nil
    } catch {
      guard error.errno == .notDirectory || error.errno == .tooManySymbolicLinkLevels else { throw error }
      return false
    }
  }

  /// Returns the path at which a key is changed: that of its file, or the one at which a new file is stored. It is valid
  /// while the key is held.
  ///
  /// A new file is stored in one of the 32 subdirectories if the places are unknown, because processes without shared
  /// memory search both, and others list the root before they rely on a place.
  ///
  /// System calls: none, or in an `adaptive` directory that has been narrow, one `fstatat(2)`, or two for a record that
  /// is still in one of the 32 subdirectories.
  func resolved(_ path: RecordPath, in open: OpenRoot) throws -> RecordPath {
    let path = open.placed(path)
    guard let other = open.otherPlace(of: path) else { return path }
    let isLikely = try open.hasUnknownPlaces || hasFile(other, in: open)
    return try isLikely && !hasFile(path, in: open) ? other : path
  }

  /// Looks up a value in the directory of a record, and again if that cached directory was removed and created again.
  func lookUpInSubdirectory<Found: ~Copyable>(
    of path: RecordPath, _ open: OpenRoot, _ body: (borrowing Directory) throws -> Found?
  ) throws -> Found? {
    guard let subdirectory = try recordSubdirectory(of: path, open) else { return nil }
    if let found = try body(subdirectory.directory) { return found }
    guard try open.forgetSubdirectoryIfReplaced(path.subdirectory, subdirectory),
      let current = try recordSubdirectory(of: path, open)
    else { return nil }
    return try body(current.directory)
  }
}

/// The last subdirectory, kept open so that a walk over the records of few subdirectories opens each only once.
final class LastSubdirectory {
  let open: OpenRoot
  private var name: String?
  private var directory: Directory?

  init(_ open: OpenRoot) { self.open = open }

  func with<Result>(_ name: String, _ body: (borrowing Directory) throws -> Result?) throws -> Result? {
    if self.name.map({ !$0.hasSameBytes(as: name) }) ?? true {
      directory = try open.openSubdirectory(name)
      self.name = name
    }
    guard directory != nil else { return nil }
    return try body(directory!)
  }
}
