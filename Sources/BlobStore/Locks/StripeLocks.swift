internal import Locks
internal import Posix
internal import SystemPackage

/// The locks that serialize changes of a key among all threads of all processes.
///
/// A change acquires the process's own flag first, and then the stripe's word in the control file's shared memory. If
/// memory is not shared, the stripe's byte of that file is locked, which the kernel releases when a process exits. If
/// the volume is too full for a control file, the root directory is locked for all keys together. The process that
/// creates the control file holds that lock too, so the two mechanisms exclude each other.
final class StripeLocks: Sendable {
  private let table = StripeTable()
  private let root: CacheRoot
  private let controlFiles: ControlFileOpener
  private let sharing: BlobStore.Sharing
  private let timeout: Duration

  init(_ root: CacheRoot, _ controlFiles: ControlFileOpener, _ configuration: BlobStore.Configuration) {
    self.root = root
    self.controlFiles = controlFiles
    sharing = configuration.access.sharing
    timeout = configuration.access.lockTimeout
  }

  /// Acquires the stripe of a key, or throws `busy` if concurrent changes hold it until the lock timeout.
  func hold(_ digest: UInt64) throws -> KeyHold {
    LockOrder.willWait(for: .stripe)
    var backoff = Backoff(timeout: timeout)
    repeat {
      if let hold = try holdIfAvailable(digest, makesControlFile: true) { return hold }
    } while backoff.wait()
    throw try busyError(digest)
  }

  private func busyError(_ digest: UInt64) throws -> BlobStoreError {
    let control = try root.opened().flatMap { try controlFiles.found(in: $0) }
    guard let control, sharing == .shared else { return Self.busyError(for: timeout, nil) }
    guard control.isMapped else {
      guard control.file.isDamaged else { return Self.busyError(for: timeout, nil) }
      return BlobStoreError(
        .busy,
        "others have been changing this key, or one that shares its lock, for \(timeout); or the control file cannot be "
          + "replaced, and a process has had the directory open since before it was damaged: end that process",
        path: root.path)
    }
    do {
      _ = try control.session.token(in: control)
    } catch Session.Obstacle.allAreTaken {
      let message = "\(ControlLayout.sessionCount) processes have this directory open for changes, and no more can"
      return BlobStoreError(.busy, message, path: root.path)
    } catch Session.Obstacle.bytesAreLocked {
      return BlobStoreError(
        .busy,
        "an earlier version of this library has been changing records of this directory for \(timeout); end its programs",
        path: root.path)
    }
    let holder = try control.holder(of: ControlLayout.stripe(of: digest))
    return Self.busyError(for: timeout, holder.flatMap { control.process(of: $0) })
  }

  private static func busyError(for timeout: Duration, _ process: Int32?) -> BlobStoreError {
    BlobStoreError(
      .busy,
      "others have been changing this key, or one that shares its lock, for \(timeout)"
        + (process.map { "; process \($0) does so now" } ?? ""), runningProcess: process)
  }

  /// Acquires the stripe of a key, or returns `nil` if another change of the key is in progress.
  ///
  /// - Parameter makesControlFile: A Boolean value that indicates whether a missing control file is created, and
  ///   whether a failure to do so is thrown.
  func holdIfAvailable(_ digest: UInt64, makesControlFile: Bool = false) throws -> KeyHold? {
    guard let stripe = table.stripe(of: digest) else { return nil }
    while true {
      guard let open = try root.opened() else { return KeyHold(digest, stripe, nil, .none) }
      let control: ControlFile?
      do {
        control = try controlFiles.controlFile(of: open, makesIt: makesControlFile)
      } catch let error as FileError where makesControlFile && error.errno == .noSuchFileOrDirectory {
        // The directory was removed, so no file can be created in it.
        guard try self.root.forgetIfReplacedNow() else { throw error }
        continue
      } catch {
        guard !makesControlFile else { throw error }
        // A caller without write access to the directory cannot lock the stripe, so the stripe is unavailable.
        return nil
      }
      guard let control else {
        guard let directory = try lockedRoot(open) else { return nil }
        return try judge(KeyHold(digest, stripe, nil, .root(directory)), nil, open, isChange: makesControlFile)
      }
      do {
        try control.allocate(forChangeOf: digest)
      } catch {
        guard !makesControlFile, error.isLackOfRoom else { throw error }
        return nil
      }
      if sharing == .exclusive {
        return try judge(KeyHold(digest, stripe, control, .none), control, open, isChange: makesControlFile)
      }
      switch try tryTake(digest, in: control, of: open) {
      case false: return nil
      case true:
        let hold = KeyHold(digest, stripe, control, control.isMapped ? .stripeWord : .stripeByte)
        if open.arrangement == .adaptive { try control.mixPlacesWithoutMapping() }
        return try judge(hold, control, open, isChange: makesControlFile)
      case nil:
        // The file was deleted concurrently. This change or another one creates a new file.
        open.forget(control)
      }
    }
  }

  /// Rejects a change if the key may have a packed record that this process cannot find for lack of shared memory.
  ///
  /// It would otherwise create a file next to the record. The caller already holds the locks, so no process that writes
  /// packs changes the key from here on. Steps that are correct even next to a packed record set `isChange` to `false`.
  ///
  /// System calls: none if memory is shared. Otherwise `openat(2)`, and `fstat(2)` if packs exist.
  ///
  /// - Returns: The hold, or `nil` if memory may be shared soon because a damaged control file is being replaced.
  private func judge(
    _ hold: consuming KeyHold, _ control: ControlFile?, _ open: OpenRoot, isChange: Bool
  ) throws -> KeyHold? {
    if control?.leadsToPacks == true { return hold }
    guard isChange, try open.ownDirectory(OpenRoot.packsName, makesIt: false) != nil else { return hold }
    guard let control else {
      throw FileError(.allocate, Location(root.path, ControlFile.format.name), .noSpace)
    }
    if control.file.isDamaged { return nil }
    throw BlobStoreError(
      .sharedMemoryRequired,
      "there are packs, and this process cannot share the control file's memory with those that change them, as on a network file "
        + "system", path: root.path)
  }

  /// Returns `nil` if the control file was deleted, replaced or overwritten.
  private func tryTake(_ digest: UInt64, in control: ControlFile, of open: OpenRoot) throws -> Bool? {
    guard control.isMapped else {
      return try control.file.tryLock(ControlLayout.stripeByte(of: digest), in: open.directory)
    }
    do {
      return try control.tryTakeWord(of: ControlLayout.stripe(of: digest))
    } catch is Session.Obstacle {
      return false
    }
  }

  /// Locks the root, or returns `nil` if it is locked or a control file now exists, whose locks take precedence.
  private func lockedRoot(_ open: OpenRoot) throws -> Directory? {
    let directory = try open.directory.reopened()
    guard try sharing == .exclusive || directory.tryLock() else { return nil }
    guard try controlFiles.found(in: open) == nil else { return nil }
    return directory
  }
}

// MARK: - All stripes

extension StripeLocks {
  /// Returns the counters at one moment, after every change that was in progress at that moment has ended.
  ///
  /// A store is counted before it is published, and an enumeration in between would not find its record. Later
  /// changes count as made during the enumeration.
  func countersBeforeEnumeration(
    of control: ControlFile, within timeout: Duration, unless isStopped: () -> Bool
  ) throws -> CounterReading? {
    guard var reading = control.counterReading() else { return nil }
    reading.isSettled = try settleChanges(in: control, within: timeout, unless: isStopped)
    if reading.isSettled { try forgetHeaderChanges(in: control) }
    return reading
  }

  /// Waits until every change that was in progress at the call has ended, which is so when each stripe has been free
  /// once.
  ///
  /// - Returns: `false` if one of them continues for `timeout`, as that of a suspended process does, or if `isStopped`
  ///   returns `true`.
  func settleChanges(
    in control: ControlFile, within timeout: Duration, unless isStopped: () -> Bool
  ) throws -> Bool {
    var backoff = Backoff(timeout: timeout)
    for stripe in 0..<ControlLayout.stripeCount {
      while try isHeld(stripe, in: control) {
        guard !isStopped(), backoff.wait() else { return false }
      }
    }
    return true
  }

  private func isHeld(_ stripe: Int, in control: ControlFile) throws -> Bool {
    if table.isTaken(stripe) { return true }
    // If the word contains this process's token, a later change of this process acquired it after the flag was read.
    guard sharing == .shared, let holder = try control.holder(of: stripe) else { return false }
    return holder != control.session.knownToken
  }

  /// Clears the header changes of processes that died, unless a change is in progress.
  private func forgetHeaderChanges(in control: ControlFile) throws {
    guard sharing == .shared, control.hasHeaderChanges(.shared) else { return }
    _ = try whileNothingChanges(in: control) { control.forgetHeaderChanges() }
  }

  /// Runs a closure while no record changes, or returns `nil` if a change is in progress.
  func whileNothingChanges<Result>(in control: ControlFile, _ body: () throws -> Result) throws -> Result? {
    try control.allocateStripes()
    return try table.withAll { sharing == .exclusive ? try body() : try control.withAllWords(body) }
  }
}

#if DEBUG
  extension StripeLocks {
    func checkInvariants() { table.checkInvariants() }
  }
#endif
