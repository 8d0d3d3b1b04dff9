internal import BlobRecord
internal import Posix
internal import SystemPackage

extension OpenRoot {
  /// How often a subdirectory is made again that a collection has removed before anything was in it. Fewer passes can
  /// follow each other in between, and a bound ends the loop on a faulty file system.
  static let removalsOutlasted = 100

  /// Opens the subdirectory a record lies in, the root itself for the empty name; nil if it is not there.
  ///
  /// - Throws: `foreignFile` if it is not the cache's.
  func openSubdirectory(_ name: String) throws -> Directory? {
    if name.isEmpty { return try directory.reopened() }
    guard let opened = try directory.openSubdirectory(name) else { return nil }
    if let distrust = try distrust(ofSubdirectory: opened) {
      throw BlobStoreError.foreignDirectory(at: opened.path, distrust)
    }
    return opened
  }

  /// Why a subdirectory is not trusted: others may take records out of it, and put other files of that owner there.
  ///
  /// Asked where others may make names in the root. A sticky subdirectory is trusted, whichever user made it: otherwise
  /// the other users could not store the keys that belong there.
  ///
  /// - Returns: nil if it is trusted.
  func distrust(ofSubdirectory opened: borrowing Directory) throws(FileError) -> Distrust? {
    guard ownership.isSharedByStrangers else { return nil }
    return ownership.distrust(ofSubdirectory: try opened.status())
  }

  /// Whether the subdirectory of a name is trusted, before something is opened in it.
  func trustsSubdirectory(_ name: String) throws(FileError) -> Bool {
    guard ownership.isSharedByStrangers, !name.isEmpty, let status = try directory.status(of: name),
      status.type == .directory
    else { return true }
    return ownership.distrust(ofSubdirectory: status) == nil
  }

  /// Makes a subdirectory sticky that was made before subdirectories were, so that other users cannot take records out
  /// of it.
  func mendSubdirectory(_ name: String) {
    guard ownership.isSharedByStrangers, !name.isEmpty else { return }
    do throws(FileError) {
      guard let opened = try directory.openSubdirectory(name) else { return }
      let status = try opened.status()
      guard ownership.distrust(ofSubdirectory: status) == .writers else { return }
      try opened.setPermissions(status.permissions.union(.saveText))
    } catch {
      // A subdirectory that cannot be mended stays foreign, and is reported as that.
    }
  }

  /// Opens a record's subdirectory, and makes a missing one with the root's permissions and ownership.
  func openOrMakeSubdirectory(_ name: String) throws -> Directory {
    // A collection may remove the empty subdirectory between its making and its opening; it does so once a pass.
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
      // Another user may have put something else there since: that stays as it is, and is found like any other.
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

  private func give(_ permissions: FilePermissions, to made: borrowing Directory) throws(FileError) {
    let inherited = permissions.intersection(.setGroupID)
    do {
      try made.setPermissions(permissions)
    } catch  where error.errno == .notPermitted && !inherited.isEmpty {
      // A sandbox may refuse a request for the bit, though the system has given it. Without it, each file is given its
      // group.
      try made.setPermissions(permissions.subtracting(inherited))
    }
  }

  /// Whether a directory may be the one that this process has just made: its own, on this volume, and nothing in it.
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
      // A collection has removed it already.
      return false
    }
  }
}

// MARK: - Of the cache itself

extension OpenRoot {
  /// A directory in which the cache keeps what is not a record.
  ///
  /// System calls: `openat(2)`, `fstat(2)`, and those that make a missing directory.
  ///
  /// - Parameter makesIt: whether a missing one is made, with the root's permissions and owner.
  /// - Returns: nil if it is missing, something else has its name, or its owner is not believed.
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

// MARK: - Of a record

extension StoreCore {
  /// The directory a record lies in; nil if it is missing, or something that is no directory has its name.
  func recordSubdirectory(of path: RecordPath, _ open: OpenRoot) throws -> OpenSubdirectory? {
    do {
      return try open.subdirectory(path.subdirectory)
    } catch let error as FileError where error.errno == .notDirectory || error.errno == .tooManySymbolicLinkLevels {
      return nil
    } catch let error as BlobStoreError where error.code == .foreignFile {
      return nil
    }
  }

  /// Whether a key may have a file, beside its record in a pack or instead of it. Nothing that is remembered is asked, but for
  /// the stripe's bit.
  ///
  /// System call: `fstatat(2)`; none where the stripe has no files.
  func mayHaveFile(_ path: RecordPath, in open: OpenRoot, _ hold: borrowing KeyHold) throws -> Bool {
    guard !hold.hasNoFiles else { return false }
    do throws(FileError) {
      return try open.directory.status(of: path.relative) != nil
    } catch {
      guard error.errno == .notDirectory || error.errno == .tooManySymbolicLinkLevels else { throw error }
      return false
    }
  }

  /// Looks for something in the directory that a record lies in. One that is remembered may have been removed, and made again
  /// with a record in it: then the look is repeated there.
  ///
  /// - Returns: nil if the look has found nothing.
  func lookInSubdirectory<Found: ~Copyable>(
    of path: RecordPath, _ open: OpenRoot, _ look: (borrowing Directory) throws -> Found?
  ) throws -> Found? {
    guard let subdirectory = try recordSubdirectory(of: path, open) else { return nil }
    if let found = try look(subdirectory.directory) { return found }
    guard try open.forgetSubdirectoryIfReplaced(path.subdirectory, subdirectory),
      let current = try recordSubdirectory(of: path, open)
    else { return nil }
    return try look(current.directory)
  }
}

/// The last subdirectory that was asked for, kept open.
///
/// So a walk over many records of few subdirectories opens each once.
final class LastSubdirectory {
  let open: OpenRoot
  private var name: String?
  private var directory: Directory?

  init(_ open: OpenRoot) { self.open = open }

  /// - Returns: nil, without calling `body`, if there is no such subdirectory.
  func with<Result>(_ name: String, _ body: (borrowing Directory) throws -> Result?) throws -> Result? {
    if self.name.map({ !$0.hasSameBytes(as: name) }) ?? true {
      directory = try open.openSubdirectory(name)
      self.name = name
    }
    guard directory != nil else { return nil }
    return try body(directory!)
  }
}
