internal import BlobRecord
internal import Locks
internal import Logging
package import Posix
internal import Synchronization
package import SystemPackage

/// The directory as it was opened.
final class OpenRoot: Sendable {
  let directory: Directory
  let ownership: FileOwnership
  let cachedLooks = CachedLooks()
  private let control = Lock<ControlFileState>(.notLookedFor)
  private let isRetired = Atomic(false)
  /// Whether the look for a directory of packs has found none.
  private let hasNoPacks = Atomic(false)
  private let bin = Lock<BinState>(.notLookedFor)
  private let subdirectories: OpenSubdirectories
  private let knownArrangement = AtomicArrangement()
  private let isArrangementUnsaid = Atomic(false)
  private let knownPacking = AtomicPacking()
  /// Given back when the directory is no longer in use.
  private let hold: (any RootHold)?

  private enum ControlFileState {
    case notLookedFor
    /// It was not there, or could not be opened, when a load looked.
    case absent
    /// By a process that may not write to it. Loads alone use it.
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

  /// Where its records lie.
  var arrangement: RecordArrangement { knownArrangement.value ?? .prefix }

  /// Whether a store must write the arrangement into the settings before its first record.
  var mustSayArrangement: Bool { isArrangementUnsaid.load(ordering: .relaxed) }

  func setArrangement(_ arrangement: RecordArrangement, mustBeSaid: Bool) {
    knownArrangement.set(arrangement)
    isArrangementUnsaid.store(mustBeSaid, ordering: .relaxed)
  }

  /// What the store packs here; nil until the first store has found out whether the directory is new.
  var packing: BlobStore.Packing? { knownPacking.value }

  func setPacking(_ packing: BlobStore.Packing) { knownPacking.set(packing) }

  /// The control file, opened when it is first needed; nil if it is missing.
  func controlFile(_ logger: Logger) throws -> ControlFile? {
    if let opened = openedControlFile { return opened }
    guard let found = try ControlFile.open(in: directory, ownership, logger: logger) else { return nil }
    return control.withLock { control in
      // Two threads may have opened it: the locks of one process are on one.
      if let opened = control.opened { return opened }
      control = .open(found)
      if isRetired.load(ordering: .relaxed) { found.retire() }
      return found
    }
  }

  /// The control file for a load, which looks for a missing one once a second.
  ///
  /// A load that may not write to it reads it, and is not counted. One that may not read it either goes without generations.
  ///
  /// - Throws: what else keeps it from being opened.
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

  /// - Returns: nil also where the caller lacks a permission, or the file is none that this process can use.
  private func unlessRefused(_ logger: Logger, _ open: () throws -> ControlFile?) throws(FileError) -> ControlFile? {
    do {
      return try open()
    } catch {
      if let error = error as? FileError, !error.isLackOfPermission, error.errno != .readOnlyFileSystem { throw error }
      logger.debug("no generations: \(BlobStoreError(error, operation: "load", key: nil))")
      return nil
    }
  }

  /// The control file, if it has been opened already.
  var openedControlFile: ControlFile? { control.withLock { $0.opened } }

  /// Closes a control file that was deleted.
  func forget(_ deleted: ControlFile) {
    control.withLock { control in
      if control.readable === deleted { control = .notLookedFor }
    }
    deleted.retire()
  }

  /// The store has let go of the directory: nothing is answered by its control file without a look.
  ///
  /// A control file that is opened later finds this.
  func retire() {
    isRetired.store(true, ordering: .relaxed)
    control.withLock { $0.readable?.retire() }
  }

  /// Closes the control file if it was deleted or moved away. A process that changes nothing finds out only here.
  ///
  /// Where it was missing, the next load looks again.
  func forgetControlFileIfReplaced() throws {
    guard let opened = control.withLock({ $0.readable }) else {
      hasNoPacks.store(false, ordering: .relaxed)
      return control.withLock { if case .absent = $0 { $0 = .notLookedFor } }
    }
    if try !opened.file.isCurrent(in: directory) { forget(opened) }
  }

  /// Whether something has the name of the directory of packs; looked at once a second where the control file is missing.
  func mayHavePacks(named name: String) throws(FileError) -> Bool {
    if hasNoPacks.load(ordering: .relaxed) { return false }
    let isThere = try directory.status(of: name) != nil
    if !isThere { hasNoPacks.store(true, ordering: .relaxed) }
    return isThere
  }

  /// The recycling bin, opened when it is first needed.
  ///
  /// - Returns: nil if it is missing, or something else has its name.
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
      // Two threads may have opened it.
      if case .open(let opened) = bin { return opened }
      bin = .open(found)
      return found
    }
  }

  private func openRecyclingBin(makesIt: Bool) throws -> RecyclingBin? {
    guard let directory = try ownDirectory(RecyclingBin.directoryName, makesIt: makesIt) else { return nil }
    return RecyclingBin(directory)
  }

  /// Closes the recycling bin, which is looked for again when it is needed.
  func forgetRecyclingBin() { bin.withLock { $0 = .notLookedFor } }

  /// Forgets the recycling bin if the name does not lead to it any more, and a missing one, which may be there by now.
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

  /// The subdirectory a record lies in, remembered for the next call that works there.
  ///
  /// - Returns: nil if it is missing.
  func subdirectory(_ name: String) throws -> OpenSubdirectory? {
    if let opened = subdirectories.find(name, at: directory.moment) { return opened }
    let start = directory.moment
    guard let directory = try openSubdirectory(name) else { return nil }
    return remember(directory, name, since: start)
  }

  /// The subdirectory a record lies in, made where it is missing.
  func madeSubdirectory(_ name: String) throws -> OpenSubdirectory {
    if let opened = subdirectories.find(name, at: directory.moment) { return opened }
    let start = directory.moment
    return remember(try openOrMakeSubdirectory(name), name, since: start)
  }

  private func remember(_ directory: consuming Directory, _ name: String, since start: Int64) -> OpenSubdirectory {
    let opened = OpenSubdirectory(directory)
    // Where nothing can be shared in memory, another host may remove it, and calls may say so in other ways.
    if openedControlFile?.isMapped == true { subdirectories.remember(opened, name, since: start) }
    return opened
  }

  /// The directory is still the one at its path, and was looked at.
  func confirmSubdirectories(_ status: Stat, systemTime: Int64, at moment: Int64) {
    subdirectories.confirm(status, systemTime: systemTime, at: moment)
  }

  /// Nothing could be put there: it is opened anew when it is needed.
  func forgetSubdirectory(_ name: String) { subdirectories.forget(name) }

  /// Forgets a subdirectory in which nothing was found, if it is not the one of its name any more.
  ///
  /// - Returns: whether to look again.
  func forgetSubdirectoryIfReplaced(_ name: String, _ opened: OpenSubdirectory) throws -> Bool {
    let (named, status) = (try directory.status(of: name.isEmpty ? "." : name), try opened.directory.status())
    if named?.inode == status.inode, named?.deviceID == status.deviceID { return false }
    forgetSubdirectory(name)
    return true
  }
}

#if DEBUG
  extension OpenRoot {
    /// Traps where an invariant of the subdirectories or of the bin does not hold. For tests; O(*n*).
    func checkInvariants() {
      subdirectories.checkInvariants()
      bin.withLock { if case .open(let bin) = $0 { bin.checkInvariants() } }
    }
  }
#endif

/// Remembers for a while that a directory's file system cannot look without waiting, such as tmpfs.
struct CachedLooks: ~Copyable, Sendable {
  /// A try costs a load some microseconds; a kernel or a mount changes seldom.
  static let pauseMilliseconds: Int64 = 10_000

  /// 0 before the first refusal.
  private let resumption = Atomic<Int64>(0)

  /// - Parameter now: of `Files.moment`, which is not read as long as nothing was refused.
  func areWorthTrying(at now: @autoclosure () -> Int64) -> Bool {
    let resumption = resumption.load(ordering: .relaxed)
    return resumption == 0 || now() >= resumption
  }

  func wereRefused(at now: Int64) {
    resumption.store(now + Self.pauseMilliseconds, ordering: .relaxed)
  }
}

/// May refuse the directories in which a store works, and knows how long it works there. A cache in front of the store
/// holds its root, so that one directory has one cache.
package protocol RootHolder: Sendable {
  /// A directory was found at the store's path, and is about to be used.
  ///
  /// - Returns: what the store keeps as long as it uses the directory.
  /// - Throws: where it is not to be used.
  func hold(_ directory: FileIdentity, at path: FilePath) throws(BlobStoreError) -> any RootHold
}

package protocol RootHold: AnyObject, Sendable {}

extension BlobStoreError {
  /// The directory is in use by another cache of the process.
  package init(rootIsTaken message: String, path: FilePath) {
    self.init(.invalidConfiguration, message, path: path)
  }
}
