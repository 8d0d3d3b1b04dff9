internal import BlobRecord
internal import Locks
internal import Logging
internal import Posix
internal import Synchronization
internal import SystemPackage

/// The cache's directory, opened on demand, created by the first store, and reopened if it is removed or replaced.
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

  /// The time between two checks of the root. It is a little shorter than the validity of `OpenSubdirectories`, so
  /// other threads, which do not wait for the check, still find them open.
  private static let milliseconds: Int64 = 950

  /// The path as the caller specified it, for messages and reports.
  let path: FilePath
  /// The path independent of the working directory.
  let absolutePath: FilePath
  private let forkCount = CurrentProcess.forkCount
  let files: Files
  private let creates: Bool
  private let allowsWorldWritable: Bool
  private let holder: (any RootHolder)?
  private let agreement: SettingsAgreement?
  private let state = Lock(State())
  /// The time of the last check, which is changed only while `state` is locked.
  private let lastCheckMilliseconds = Atomic<Int64>(0)
  private let lastArrangement = AtomicArrangement()

  /// `agreement` is `nil` for a store that changes the settings.
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

  /// A number that increases whenever another directory may be at the path.
  var changes: UInt64 { state.withLock { $0.changes } }

  /// The arrangement of the directory that was opened last, read without a lock or a system call.
  var arrangement: RecordArrangement? { lastArrangement.value }

  /// Returns the directory, if it exists, and checks at most once a second that the path still leads to it.
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

  /// Returns the directory without a system call, if it is open and its path was checked within the last second.
  func openedLately() -> OpenRoot? { wasCheckedLately ? lastOpened : nil }

  /// The directory that was opened last, unless the last check of its path did not find it.
  var lastOpened: OpenRoot? { state.withLock { $0.opened } }

  /// A Boolean value that indicates whether this process has checked the path within the last second.
  var wasCheckedLately: Bool {
    CurrentProcess.forkCount == forkCount && !isCheckDue(at: files.moment)
  }

  private func isCheckDue(at now: Int64) -> Bool {
    now - lastCheckMilliseconds.load(ordering: .relaxed) >= Self.milliseconds
  }

  /// Returns the directory. A missing one is created with mode 0700, and is durable before anything is stored in it.
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
    try checkSettings(of: opened)
    state.withLock {
      $0.opened = opened
      lastCheckMilliseconds.store(files.moment, ordering: .relaxed)
    }
    return opened
  }

  /// Checks the configuration against the directory, and determines its arrangement (`OpenRoot.findArrangement`).
  func checkSettings(of opened: OpenRoot, isForStore: Bool = false) throws {
    guard let agreement else { return }
    try agreement.check(opened, isForStore: isForStore)
    lastArrangement.set(opened.arrangement)
  }

  /// Closes the directory or its control file if its path no longer leads to it. Returns `true` to repeat a lookup.
  ///
  /// Runs at most once a second, and immediately after a call that has found a file or directory missing.
  func forgetIfReplacedNow() throws -> Bool {
    guard let opened = state.withLock({ $0.opened }) else { return false }
    // The order of the clock reads matters: a change between them is not yet past, and a subdirectory that is opened
    // before the second one is not confirmed.
    let systemTime = SystemClock.unixNanoseconds()
    let moment = files.moment
    if let status = try files.status(of: absolutePath), opened.ownership.isSame(as: status) {
      opened.confirmSubdirectories(status, systemTime: systemTime, at: moment)
      try opened.forgetControlFileIfReplaced()
      try opened.forgetRecyclingBinIfReplaced()
      // Another program may choose the arrangement until the settings contain it.
      if opened.mustSayArrangement { try checkSettings(of: opened) }
      return false
    }
    state.withLock { state in
      if state.opened === opened { state.opened = nil }
    }
    return true
  }
}

extension StoreCore {
  func usageEstimate() throws -> BlobStore.UsageEstimate? {
    guard let open = try root.opened() else { return BlobStore.UsageEstimate() }
    guard let control = countersFile(of: open), control.countersAreKnown else { return nil }
    return control.counters
  }

  /// Returns whether any version of this library has changed the directory.
  func hasControlFile() throws -> Bool {
    guard let open = try root.opened(), let control = countersFile(of: open) else { return false }
    return !control.file.isDamaged && !control.file.mayBePlanted
  }

  func countersFile(of open: OpenRoot) -> ControlFile? {
    do {
      return try open.controlFile(configuration.logger)
    } catch {
      // Without a usable control file, the directory is enumerated.
      configuration.logger.debug("\(BlobStoreError(error, operation: "count", key: nil))")
      return nil
    }
  }
}
