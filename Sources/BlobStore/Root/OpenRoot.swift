internal import BlobRecord
internal import Locks
internal import Logging
package import Posix
internal import Synchronization
package import SystemPackage

final class OpenRoot: Sendable {
  let directory: Directory
  let ownership: FileOwnership
  let cachedLookups = CachedLookups()
  private let control = Lock<ControlFileState>(.notLookedFor)
  private let isRetired = Atomic(false)
  /// A Boolean value that indicates whether the directory of packs was missing at the last check.
  private let hasNoPacks = Atomic(false)
  private let bin = Lock<BinState>(.notLookedFor)
  private let subdirectories: OpenSubdirectories
  private let knownArrangement = AtomicArrangement()
  private let isArrangementUnsaid = Atomic(false)
  private let knownPacking = AtomicPacking()
  private let hold: (any RootHold)?

  private enum ControlFileState {
    case notLookedFor
    /// A load found that the file was missing or could not be opened.
    case absent
    /// This process may not write to the file, so only loads use it.
    case readable(ControlFile)
    case open(ControlFile)

    var opened: ControlFile? { if case .open(let file) = self { file } else { nil } }

    var readable: ControlFile? {
      switch self {
      case .notLookedFor, .absent: nil
      case .readable(let file), .open(let file): file
      }
    }
  }

  private enum BinState {
    case notLookedFor
    case absent
    case open(RecyclingBin)
  }

  init(_ directory: consuming Directory, _ budget: OpenFileBudget, holder: (any RootHolder)? = nil) throws {
    let status = try directory.status()
    hold = try holder?.hold(FileIdentity(status), at: directory.path)
    ownership = FileOwnership(of: status)
    subdirectories = OpenSubdirectories(budget)
    self.directory = directory
  }

  var arrangement: RecordArrangement { knownArrangement.value ?? .prefix }

  /// A Boolean value that indicates whether the first store must record the arrangement in the settings.
  var mustSayArrangement: Bool { isArrangementUnsaid.load(ordering: .relaxed) }

  func setArrangement(_ arrangement: RecordArrangement, mustBeSaid: Bool) {
    knownArrangement.set(arrangement)
    isArrangementUnsaid.store(mustBeSaid, ordering: .relaxed)
  }

  /// The packing of stores, or `nil` until the first store has determined whether the directory is new.
  var packing: BlobStore.Packing? { knownPacking.value }

  func setPacking(_ packing: BlobStore.Packing) { knownPacking.set(packing) }

  func controlFile(_ logger: Logger) throws -> ControlFile? {
    if let opened = openedControlFile { return opened }
    guard let found = try ControlFile.open(in: directory, ownership, logger: logger) else { return nil }
    return control.withLock { control in
      // Two threads may have opened it, and all locks of a process must use one open file.
      if let opened = control.opened { return opened }
      control = .open(found)
      if isRetired.load(ordering: .relaxed) { found.retire() }
      return found
    }
  }

  /// Returns the control file for a load, which looks for a missing one once a second.
  ///
  /// A load that may not write to the file reads it, and is not counted. Without read access, it has no generations.
  func controlFileOfLoads(_ logger: Logger) throws(FileError) -> ControlFile? {
    switch control.withLock({ $0 }) {
    case .readable(let opened), .open(let opened): return opened
    case .absent: return nil
    case .notLookedFor: break
    }
    if let opened = try unlessRefused(logger, { try controlFile(logger) }) { return opened }
    let found = try unlessRefused(logger) {
      try ControlFile.open(in: directory, ownership, logger: logger, for: .read)
    }
    return control.withLock { control in
      if case .notLookedFor = control {
        control = found.map(ControlFileState.readable) ?? .absent
        if isRetired.load(ordering: .relaxed) { found?.retire() }
      }
      return control.readable
    }
  }

  /// Opens the file by a closure. Returns `nil` also if a permission is missing, or this process cannot use the file.
  private func unlessRefused(_ logger: Logger, _ open: () throws -> ControlFile?) throws(FileError) -> ControlFile? {
    do {
      return try open()
    } catch {
      if let error = error as? FileError, !error.isLackOfPermission, error.errno != .readOnlyFileSystem { throw error }
      logger.debug("no generations: \(BlobStoreError(error, operation: "load", key: nil))")
      return nil
    }
  }

  var readableControlFile: ControlFile? { control.withLock { $0.readable } }

  var openedControlFile: ControlFile? { control.withLock { $0.opened } }

  func forget(_ deleted: ControlFile) {
    control.withLock { control in
      if control.readable === deleted { control = .notLookedFor }
    }
    deleted.retire()
  }

  /// Marks the directory as no longer used by the store, so that no result is valid without a check. A control file
  /// that is opened later is retired too.
  func retire() {
    isRetired.store(true, ordering: .relaxed)
    control.withLock { $0.readable?.retire() }
  }

  /// Closes the control file if it was deleted or moved, which a process that makes no changes notices only here. If it
  /// was missing, the next load tries again.
  func forgetControlFileIfReplaced() throws {
    guard let opened = control.withLock({ $0.readable }) else {
      hasNoPacks.store(false, ordering: .relaxed)
      return control.withLock { if case .absent = $0 { $0 = .notLookedFor } }
    }
    if try !opened.file.isCurrent(in: directory) { forget(opened) }
  }

  /// The name of the directory of packs.
  static let packsName = ".packs"

  /// Returns whether a directory of packs may exist, which is checked once a second if the control file is missing.
  func mayHavePacks() throws(FileError) -> Bool {
    if hasNoPacks.load(ordering: .relaxed) { return false }
    let isThere = try directory.status(of: Self.packsName) != nil
    if !isThere { hasNoPacks.store(true, ordering: .relaxed) }
    return isThere
  }

  /// Returns the recycling bin, or `nil` if it is missing or another file has its name.
  func recyclingBin(makesIt: Bool) throws -> RecyclingBin? {
    switch bin.withLock({ $0 }) {
    case .open(let opened): return opened
    case .absent where !makesIt: return nil
    case .absent, .notLookedFor: break
    }
    guard let found = try openRecyclingBin(makesIt: makesIt) else {
      bin.withLock { if case .notLookedFor = $0 { $0 = .absent } }
      return nil
    }
    return bin.withLock { bin in
      if case .open(let opened) = bin { return opened }
      bin = .open(found)
      return found
    }
  }

  private func openRecyclingBin(makesIt: Bool) throws -> RecyclingBin? {
    guard let directory = try ownDirectory(RecyclingBin.directoryName, makesIt: makesIt) else { return nil }
    return RecyclingBin(directory)
  }

  func forgetRecyclingBin() { bin.withLock { $0 = .notLookedFor } }

  /// Forgets the recycling bin if it was replaced, or was missing and may exist by now.
  func forgetRecyclingBinIfReplaced() throws {
    switch bin.withLock({ $0 }) {
    case .notLookedFor: return
    case .absent: break
    case .open(let opened):
      let (named, status) = (
        try directory.status(of: RecyclingBin.directoryName), try opened.directory.status()
      )
      if named?.inode == status.inode, named?.deviceID == status.deviceID { return }
    }
    forgetRecyclingBin()
  }

  func subdirectory(_ name: String) throws -> OpenSubdirectory? {
    if let opened = subdirectories.find(name, at: directory.moment) { return opened }
    let start = directory.moment
    guard let directory = try openSubdirectory(name) else { return nil }
    return remember(directory, name, since: start)
  }

  func madeSubdirectory(_ name: String) throws -> OpenSubdirectory {
    if let opened = subdirectories.find(name, at: directory.moment) { return opened }
    let start = directory.moment
    return remember(try openOrMakeSubdirectory(name), name, since: start)
  }

  private func remember(_ directory: consuming Directory, _ name: String, since start: Int64) -> OpenSubdirectory {
    let opened = OpenSubdirectory(directory)
    // Without shared memory, another host may remove the directory, which system calls may report in other ways.
    if openedControlFile?.isMapped == true { subdirectories.remember(opened, name, since: start) }
    return opened
  }

  func confirmSubdirectories(_ status: Stat, systemTime: Int64, at moment: Int64) {
    subdirectories.confirm(status, systemTime: systemTime, at: moment)
  }

  func closeSubdirectories() { subdirectories.closeAll() }

  /// Forgets a subdirectory in which nothing could be created. It is opened again when it is needed.
  func forgetSubdirectory(_ name: String) { subdirectories.forget(name) }

  /// Forgets a subdirectory without the expected file if its name leads to another directory. Returns whether it did.
  func forgetSubdirectoryIfReplaced(_ name: String, _ opened: OpenSubdirectory) throws -> Bool {
    let (named, status) = (try directory.status(of: name.isEmpty ? "." : name), try opened.directory.status())
    if named?.inode == status.inode, named?.deviceID == status.deviceID { return false }
    forgetSubdirectory(name)
    return true
  }
}

#if DEBUG
  extension OpenRoot {
    /// Traps if an invariant does not hold. For tests, O(*n*).
    func checkInvariants() {
      subdirectories.checkInvariants()
      bin.withLock { if case .open(let bin) = $0 { bin.checkInvariants() } }
    }
  }
#endif

/// Remembers temporarily that a file system, such as tmpfs, does not support lookups without waiting.
struct CachedLookups: ~Copyable, Sendable {
  /// An attempt costs a load some microseconds, and a kernel or a mount changes rarely.
  static let pauseMilliseconds: Int64 = 10_000

  /// The time of the next attempt, or 0 before the first refusal.
  private let resumption = Atomic<Int64>(0)

  /// Returns whether to try such a lookup. The clock is read only after a refusal.
  func areWorthTrying(at now: @autoclosure () -> Int64) -> Bool {
    let resumption = resumption.load(ordering: .relaxed)
    return resumption == 0 || now() >= resumption
  }

  func wereRefused(at now: Int64) {
    resumption.store(now + Self.pauseMilliseconds, ordering: .relaxed)
  }
}

/// An object that may refuse the directories in which a store works, and that knows how long it works there.
///
/// A cache in front of the store holds its root, so that a directory has only one such cache.
package protocol RootHolder: Sendable {
  /// Approves a directory before it is used, and returns an object that the store retains during its use.
  ///
  /// - Throws: An error if the directory must not be used.
  func hold(_ directory: FileIdentity, at path: FilePath) throws(BlobStoreError) -> any RootHold
}

package protocol RootHold: AnyObject, Sendable {}

extension BlobStoreError {
  /// Creates the error for a directory that another cache of the process uses.
  package init(rootIsTaken message: String, path: FilePath) {
    self.init(.invalidConfiguration, message, path: path)
  }
}
