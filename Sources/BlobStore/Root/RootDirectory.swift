internal import Locks
internal import Logging
internal import Posix
internal import SystemPackage

/// The cache's directory: opened when it is first needed, made by the first store, and found again when somebody
/// removed or replaced it under the running program.
final class RootDirectory: Sendable {
  /// The directory as it was opened.
  final class Opened: Sendable {
    let directory: Directory
    private let status: Stat
    /// A record file belongs to the caller, to the owner of the root, or to its group where that shares it; another's is
    /// foreign.
    let owners: FileOwners
    private let callerGroup = Credentials.group
    /// Whether the caller may give the root's group its files.
    private let mayGiveGroup: Bool
    private let control = Lock<ControlFile?>(nil)
    private let bin = Lock<BinState>(.notLookedFor)
    private let subdirectories: OpenSubdirectories
    /// Given back when nobody uses the directory any more.
    private let hold: (any RootHold)?

    private enum BinState {
      case notLookedFor
      case absent
      case open(RecyclingBin)
    }

    init(_ directory: consuming Directory, _ budget: OpenFileBudget, holder: (any RootHolder)? = nil) throws {
      status = try directory.status()
      hold = try holder?.hold(FileIdentity(status), at: directory.path)
      owners = FileOwners(caller: Credentials.user, directory: status)
      mayGiveGroup = owners.caller.rawValue == 0 || Credentials.belong(to: status.groupID)
      subdirectories = OpenSubdirectories(budget)
      self.directory = directory
    }

    func owns(_ status: Stat) -> Bool { owners.include(ownerOf: status) }

    /// The control file, opened when it is first needed; nil if there is none.
    func controlFile(_ logger: Logger) throws -> ControlFile? {
      if let opened = control.withLock({ $0 }) { return opened }
      guard let opened = try ControlFile.open(in: self, logger: logger) else { return nil }
      return control.withLock { control in
        // Two threads may have opened it: the locks of one process are on one.
        if control == nil { control = opened }
        return control
      }
    }

    /// The control file, if it has been opened already: whoever only reads does so only where files are recycled.
    var openedControlFile: ControlFile? { control.withLock { $0 } }

    /// Closes a control file that was deleted.
    func forget(_ deleted: ControlFile) {
      control.withLock { control in
        if control === deleted { control = nil }
      }
    }

    /// Closes the control file if it was deleted or moved away: who changes nothing finds out no other way.
    func forgetControlFileIfReplaced() throws {
      guard let opened = control.withLock({ $0 }), try !opened.isCurrent(in: self) else { return }
      forget(opened)
    }

    /// The recycling bin, opened when it is first needed.
    ///
    /// - Returns: nil if there is none, or something else has its name.
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
      do {
        let name = RecyclingBin.directoryName
        guard let directory = try makesIt ? openOrMakeSubdirectory(name) : openSubdirectory(name) else { return nil }
        guard try owners.distrust(of: directory.status()) == nil else { return nil }
        return RecyclingBin(directory)
      } catch let error as FileError where error.errno == .notDirectory || error.errno == .tooManySymbolicLinkLevels {
        return nil
      } catch let error as BlobStoreError where error.code == .foreignFile {
        return nil
      }
    }

    /// Closes the recycling bin, which is looked for again when it is needed.
    func forgetRecyclingBin() { bin.withLock { $0 = .notLookedFor } }

    /// The same, if the name does not lead to it any more, or may lead to one by now.
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

    /// The subdirectory a record lies in, remembered for whoever works there next.
    ///
    /// - Returns: nil if there is none.
    func subdirectory(_ name: String) throws -> OpenSubdirectory? {
      if let opened = subdirectories.find(name) { return opened }
      let start = SystemClock.coarseMilliseconds()
      guard let directory = try openSubdirectory(name) else { return nil }
      return remember(directory, name, since: start)
    }

    /// The same, made if it is not there.
    func madeSubdirectory(_ name: String) throws -> OpenSubdirectory {
      if let opened = subdirectories.find(name) { return opened }
      let start = SystemClock.coarseMilliseconds()
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

    /// Whether a file is as this process would make one for a record, and has one name only: then it may become one.
    func isRecyclable(_ file: Stat) -> Bool {
      file.linkCount == 1 && file.deviceID == status.deviceID
        && file.permissions == permissions(of: .record, group: file.groupID)
        && file.userID == ownerOfNewFiles
        // Where the group shares the cache, a record of another group would be foreign to it.
        && (file.groupID == status.groupID || (owners.group == nil && file.groupID == callerGroup))
    }

    /// Whose files this process makes, and whose it may overwrite: a lease is for a file's owner.
    var ownerOfNewFiles: UserID { owners.caller.rawValue == 0 ? status.userID : owners.caller }

    /// Whether a file cannot become a record's for anybody: it has another name, or the permissions that the root had once.
    func isWorn(_ file: Stat) -> Bool {
      file.linkCount > 1 || file.permissions != permissions(of: .record, group: file.groupID)
    }

    /// Whether it is the same directory, and has the same owner and permissions, which its files get too.
    func isSame(as status: Stat) -> Bool {
      status.deviceID == self.status.deviceID && status.inode == self.status.inode
        && status.permissions == self.status.permissions && status.userID == self.status.userID
        && status.groupID == self.status.groupID
    }

    var isWorldWritable: Bool {
      status.permissions.contains(.otherWrite) && !status.permissions.contains(.saveText)
    }

    /// Whether others may make names in it, and take none away: what lies there may be theirs.
    var isSharedByStrangers: Bool {
      status.permissions.contains(.saveText) && !status.permissions.isDisjoint(with: [.groupWrite, .otherWrite])
    }

    /// Whether some may open and lock the directory who may not change it.
    var isOpenToReaders: Bool {
      status.permissions.withoutReaders != status.permissions
    }

    /// Whether a control file can be written to by users who could not write to a new one. They may have it open: to change
    /// its permissions is not enough.
    func isOutgrown(control: Stat) -> Bool {
      // Where names may be anybody's, a new one would be no better.
      guard !isSharedByStrangers else { return false }
      if case .owner = owners.distrust(of: control) { return false }
      let writers = control.permissions.intersection([.groupWrite, .otherWrite])
      return !permissions(of: .control, group: control.groupID).isSuperset(of: writers)
    }

    /// What a file that the cache makes is for.
    enum FileRole {
      case record
      /// The locks of all who may change the directory, and of nobody else.
      case control
    }

    /// The permissions of a new file: the root's, as far as nobody can write to it who may not change the cache anyway.
    ///
    /// - Parameter group: the file's, if it is not the root's.
    func permissions(of role: FileRole, group: GroupID? = nil) -> FilePermissions {
      var permissions = status.permissions.intersection(FilePermissions(rawValue: 0o666))
      if status.permissions.contains(.saveText) {
        // Who takes locks needs to write, whatever else they may do there.
        if role == .record { permissions.subtract([.groupWrite, .otherWrite]) }
      } else if let group, group != status.groupID, !permissions.contains(.otherWrite) {
        permissions.remove(.groupWrite)
      }
      return role == .control ? permissions.withoutReaders : permissions
    }

    private func subdirectoryPermissions(group: GroupID? = nil) -> FilePermissions {
      var permissions = status.permissions.intersection(FilePermissions(rawValue: 0o1777))
      if let group, group != status.groupID, permissions.isDisjoint(with: [.saveText, .otherWrite]) {
        permissions.remove(.groupWrite)
      }
      return permissions
    }

    /// The owner and group that a new file or subdirectory has to be given; nil where it has them, or where this
    /// process may not give them.
    func ownershipToGive(_ created: Stat) -> (user: UserID?, group: GroupID?)? {
      let isRoot = owners.caller.rawValue == 0
      let user = isRoot && created.userID != status.userID ? status.userID : nil
      let group = created.groupID != status.groupID && mayGiveGroup ? status.groupID : nil
      return user == nil && group == nil ? nil : (user, group)
    }
  }

  private struct State {
    var opened: Opened? {
      didSet { changes &+= 1 }
    }
    var changes: UInt64 = 0
    var lastCheckMilliseconds: Int64 = 0
  }

  /// How often a subdirectory is made again that a collection has removed before anything was in it: more often than
  /// passes can follow each other in between, and not for ever, should the file system be out of its mind.
  static let removalsOutlasted = 100

  /// From one look at the root to the next. A little less than `OpenSubdirectories` go without one: other threads, which do
  /// not wait for it, find them open meanwhile.
  private static let milliseconds: Int64 = 950

  /// As it was given: what messages and reports call it.
  let path: FilePath
  /// Where it is, whatever the working directory is by now.
  let absolutePath: FilePath
  private let forkCount = CurrentProcess.forkCount
  let files: Files
  private let creates: Bool
  private let allowsWorldWritable: Bool
  private let holder: (any RootHolder)?
  private let state = Lock(State())

  /// - Parameters:
  ///   - path: as it was given.
  ///   - absolutePath: the same from the file system's root on.
  ///   - holder: is asked about each directory that is found at the path, before it is used.
  init(
    path: FilePath, absolutePath: FilePath, files: Files, creates: Bool, allowsWorldWritable: Bool,
    holder: (any RootHolder)?
  ) {
    self.path = path
    self.absolutePath = absolutePath
    self.files = files
    self.creates = creates
    self.allowsWorldWritable = allowsWorldWritable
    self.holder = holder
  }

  /// A number that grows whenever another directory may be at the path.
  var changes: UInt64 { state.withLock { $0.changes } }

  /// The directory; nil if there is none. Looks at most once a second whether it is still the one at the path.
  func opened() throws -> Opened? {
    guard CurrentProcess.forkCount == forkCount else {
      throw BlobStoreError(
        .forkedChild, "the store was made before this process was forked; make one of its own", path: path)
    }
    let now = SystemClock.coarseMilliseconds()
    let (opened, isDue) = state.withLock { state in
      let isDue = state.opened != nil && now - state.lastCheckMilliseconds >= Self.milliseconds
      if isDue { state.lastCheckMilliseconds = now }
      return (state.opened, isDue)
    }
    if let opened, try !isDue || !forgetIfReplacedNow() { return opened }
    guard let directory = try Directory(at: absolutePath, shownAs: path, files: files) else {
      guard creates else {
        throw BlobStoreError(.directoryMissing, "there is no such directory", path: path)
      }
      return nil
    }
    return try adopt(directory)
  }

  /// The directory, made if there is none.
  ///
  /// Directories made here are 0700, and on the medium before anything is put into them.
  func openedOrMade() throws -> Opened {
    if let opened = try opened() { return opened }
    for container in try files.makeDirectories(at: absolutePath, permissions: .ownerReadWriteExecute) {
      try Directory(at: container, files: files)?.synchronize()
    }
    guard let made = try Directory(at: absolutePath, shownAs: path, files: files) else {
      throw FileError(.openDirectory, Location(path), .noSuchFileOrDirectory)
    }
    return try adopt(made)
  }

  private func adopt(_ directory: consuming Directory) throws -> Opened {
    let opened = try Opened(directory, files.budget, holder: holder)
    guard allowsWorldWritable || !opened.isWorldWritable else {
      throw BlobStoreError(
        .worldWritableDirectory,
        "everybody may write to this directory and it has no sticky bit, so anybody could plant or remove blobs",
        path: path)
    }
    state.withLock {
      $0.opened = opened
      $0.lastCheckMilliseconds = SystemClock.coarseMilliseconds()
    }
    return opened
  }

  /// Looks whether the path still leads to the directory that is open and whether its control file is still there, and
  /// closes what is not: at most once a second, and at once when a call has found that something is gone.
  ///
  /// - Returns: whether what was found before should be looked up again.
  func forgetIfReplacedNow() throws -> Bool {
    guard let opened = state.withLock({ $0.opened }) else { return false }
    // In this order: what changes between the two is not past, and what is opened before the second is not confirmed.
    let systemTime = SystemClock.unixNanoseconds()
    let moment = SystemClock.coarseMilliseconds()
    if let status = try files.status(of: absolutePath), opened.isSame(as: status) {
      opened.confirmSubdirectories(status, systemTime: systemTime, at: moment)
      try opened.forgetControlFileIfReplaced()
      try opened.forgetRecyclingBinIfReplaced()
      return false
    }
    state.withLock { state in
      if state.opened === opened { state.opened = nil }
    }
    return true
  }
}

extension RootDirectory.Opened {
  /// Opens the subdirectory a record lies in, the root itself for the empty name; nil if it is not there.
  ///
  /// - Throws: `foreignFile` if it is none of the cache's.
  func openSubdirectory(_ name: String) throws -> Directory? {
    if name.isEmpty { return try directory.reopened() }
    guard let opened = try directory.openSubdirectory(name) else { return nil }
    if let distrust = try distrust(ofSubdirectory: opened) {
      throw BlobStoreError.foreignDirectory(at: opened.path, distrust)
    }
    return opened
  }

  /// Why a subdirectory is not to be gone by: others may take records out of it, and put others of the same owner there.
  ///
  /// Asked where others may make names in the root. A sticky subdirectory is trusted whoever made it, since nobody else
  /// could store under the keys that belong there otherwise.
  ///
  /// - Returns: nil if it is to be trusted.
  func distrust(ofSubdirectory opened: borrowing Directory) throws(FileError) -> Distrust? {
    guard isSharedByStrangers else { return nil }
    return distrust(ofSubdirectory: try opened.status())
  }

  private func distrust(ofSubdirectory status: Stat) -> Distrust? {
    status.permissions.contains(.saveText) ? nil : owners.distrust(of: status)
  }

  /// The same of the subdirectory of a name, before something is opened in it.
  func trustsSubdirectory(_ name: String) throws(FileError) -> Bool {
    guard isSharedByStrangers, !name.isEmpty, let status = try directory.status(of: name), status.type == .directory
    else { return true }
    return distrust(ofSubdirectory: status) == nil
  }

  /// Makes a subdirectory sticky that was made before subdirectories were, so that nobody takes records out of it any more.
  func mendSubdirectory(_ name: String) {
    guard isSharedByStrangers, !name.isEmpty else { return }
    do throws(FileError) {
      guard let opened = try directory.openSubdirectory(name) else { return }
      let status = try opened.status()
      guard distrust(ofSubdirectory: status) == .writers else { return }
      try opened.setPermissions(status.permissions.union(.saveText))
    } catch {
      // What cannot be mended stays foreign, and is reported as that.
    }
  }

  /// Opens the subdirectory a record is to lie in, made with the root's permissions and ownership if it is not there.
  func openOrMakeSubdirectory(_ name: String) throws -> Directory {
    // A collection may remove the empty subdirectory between its making and its opening; it does so once a pass.
    var triesLeft = RootDirectory.removalsOutlasted
    while true {
      mendSubdirectory(name)
      if let directory = try openSubdirectory(name) { return directory }
      if triesLeft == 0 { throw FileError(.openDirectory, Location(directory.path, name), .noSuchFileOrDirectory) }
      triesLeft -= 1
      guard try directory.makeSubdirectory(name, permissions: subdirectoryPermissions()) else { continue }
      guard let made = try directory.openSubdirectory(name) else { continue }
      let status = try made.status()
      let (ownership, permissions) = wishes(for: status)
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
      // A sandbox may let nobody ask for the bit, though the system has given it. Without it, each file is given its group.
      try made.setPermissions(permissions.subtracting(inherited))
    }
  }

  /// What a subdirectory that was just made is to be given of the root's; nil for what it has.
  private func wishes(
    for made: Stat
  ) -> (ownership: (user: UserID?, group: GroupID?)?, permissions: FilePermissions?) {
    let ownership = ownershipToGive(made)
    let permissions = subdirectoryPermissions(group: ownership?.group ?? made.groupID)
    let isAsWanted = made.permissions.intersection(FilePermissions(rawValue: 0o1777)) == permissions
    return (ownership, isAsWanted ? nil : permissions.union(made.permissions.intersection(.setGroupID)))
  }

  /// Whether a directory may be the one that this process has just made: its own, on this volume, and nothing in it.
  ///
  /// Only a directory that needs other permissions or another owner is listed.
  private func isJustMade(
    _ made: borrowing Directory, _ status: Stat, isAsWanted: Bool
  ) throws(FileError) -> Bool {
    guard status.userID == owners.caller, status.deviceID == self.status.deviceID else { return false }
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

extension FilePermissions {
  /// Without the read bits of classes that have no write bit: who opens a file can lock it.
  var withoutReaders: FilePermissions {
    var permissions = self
    if !permissions.contains(.groupWrite) { permissions.remove(.groupRead) }
    if !permissions.contains(.otherWrite) { permissions.remove(.otherRead) }
    return permissions
  }
}
