internal import BlobRecord
internal import Locks
internal import Posix
internal import Synchronization
internal import SystemPackage

/// The cache's directory. It is opened when it is first needed, made by the first store, and found again after it was
/// removed or replaced under the running program.
final class CacheRoot: Sendable {
  private struct State {
    var opened: OpenRoot? {
      didSet {
        changes &+= 1
        oldValue?.retire()
      }
    }
    var changes: UInt64 = 0
  }

  /// From one look at the root to the next. A little less than `OpenSubdirectories` go without one: other threads, which do
  /// not wait for it, find them open meanwhile.
  private static let milliseconds: Int64 = 950

  /// As it was given: what messages and reports call it.
  let path: FilePath
  /// Its place, independent of the working directory.
  let absolutePath: FilePath
  private let forkCount = CurrentProcess.forkCount
  let files: Files
  private let creates: Bool
  private let allowsWorldWritable: Bool
  private let holder: (any RootHolder)?
  private let agreement: SettingsAgreement?
  private let state = Lock(State())
  /// Changed with `state` locked.
  private let lastCheckMilliseconds = Atomic<Int64>(0)
  private let lastArrangement = AtomicArrangement()

  /// - Parameters:
  ///   - path: as it was given.
  ///   - absolutePath: the same from the file system's root on.
  ///   - holder: is asked about each directory that is found at the path, before it is used.
  ///   - agreement: compares each with its settings; nil for a change of them.
  init(
    path: FilePath, absolutePath: FilePath, files: Files, creates: Bool, allowsWorldWritable: Bool,
    holder: (any RootHolder)?, agreement: SettingsAgreement?
  ) {
    self.path = path
    self.absolutePath = absolutePath
    self.files = files
    self.creates = creates
    self.allowsWorldWritable = allowsWorldWritable
    self.holder = holder
    self.agreement = agreement
  }

  /// A number that grows whenever another directory may be at the path.
  var changes: UInt64 { state.withLock { $0.changes } }

  /// The arrangement of the directory that was opened last; nil before the first one.
  ///
  /// - Complexity: no lock and no system call.
  var arrangement: RecordArrangement? { lastArrangement.value }

  /// The directory; nil if the path leads to none. Looks at most once a second whether it is still the one at the path.
  func opened() throws -> OpenRoot? {
    guard CurrentProcess.forkCount == forkCount else {
      throw BlobStoreError(
        .forkedChild, "the store was made before this process was forked; make one of its own", path: path)
    }
    let now = files.moment
    let (opened, isDue) = state.withLock { state in
      let isDue = state.opened != nil && isCheckDue(at: now)
      if isDue { lastCheckMilliseconds.store(now, ordering: .relaxed) }
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

  /// The directory, if it is open and needs no look at its path yet: without a system call.
  func openedLately() -> OpenRoot? { wasCheckedLately ? lastOpened : nil }

  /// The directory that was opened last, if it was still there at the last look at its path.
  var lastOpened: OpenRoot? { state.withLock { $0.opened } }

  /// Whether the path was looked at less than a second ago, by this process: the last look holds until the next.
  ///
  /// - Complexity: no lock and no system call.
  var wasCheckedLately: Bool {
    CurrentProcess.forkCount == forkCount && !isCheckDue(at: files.moment)
  }

  private func isCheckDue(at now: Int64) -> Bool {
    now - lastCheckMilliseconds.load(ordering: .relaxed) >= Self.milliseconds
  }

  /// The directory, made where it is missing.
  ///
  /// Directories made here are 0700, and on the medium before anything is put into them.
  func openedOrMade() throws -> OpenRoot {
    if let opened = try opened() { return opened }
    for container in try files.makeDirectories(at: absolutePath, permissions: .ownerReadWriteExecute) {
      try Directory(at: container, files: files)?.synchronize()
    }
    guard let made = try Directory(at: absolutePath, shownAs: path, files: files) else {
      throw FileError(.openDirectory, Location(path), .noSuchFileOrDirectory)
    }
    return try adopt(made)
  }

  private func adopt(_ directory: consuming Directory) throws -> OpenRoot {
    let opened = try OpenRoot(directory, files.budget, holder: holder)
    guard allowsWorldWritable || !opened.ownership.isWorldWritable else {
      throw BlobStoreError(
        .worldWritableDirectory,
        "everybody may write to this directory and it has no sticky bit, so anybody could plant or remove blobs",
        path: path)
    }
    try lookAtSettings(of: opened)
    state.withLock {
      $0.opened = opened
      lastCheckMilliseconds.store(files.moment, ordering: .relaxed)
    }
    return opened
  }

  /// Finds out whether the configuration agrees with the directory, and where its records lie.
  ///
  /// - Parameter isForStore: as in `OpenRoot.findArrangement`.
  func lookAtSettings(of opened: OpenRoot, isForStore: Bool = false) throws {
    guard let agreement else { return }
    try agreement.check(opened, isForStore: isForStore)
    lastArrangement.set(opened.arrangement)
  }

  /// Checks that the path still leads to the open directory and that its control file is still there, and closes what
  /// is gone. Runs at most once a second, and at once when a call has found something gone.
  ///
  /// - Returns: whether what was found before should be looked up again.
  func forgetIfReplacedNow() throws -> Bool {
    guard let opened = state.withLock({ $0.opened }) else { return false }
    // In this order: what changes between the two is not past, and what is opened before the second is not confirmed.
    let systemTime = SystemClock.unixNanoseconds()
    let moment = files.moment
    if let status = try files.status(of: absolutePath), opened.ownership.isSame(as: status) {
      opened.confirmSubdirectories(status, systemTime: systemTime, at: moment)
      try opened.forgetControlFileIfReplaced()
      try opened.forgetRecyclingBinIfReplaced()
      // Until the directory says where records lie, another program may decide it.
      if opened.mustSayArrangement { try lookAtSettings(of: opened) }
      return false
    }
    state.withLock { state in
      if state.opened === opened { state.opened = nil }
    }
    return true
  }
}
