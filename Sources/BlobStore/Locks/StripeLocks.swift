internal import Locks
internal import Posix
internal import SystemPackage

/// The locks that serialize changes of a key among all threads of all processes. The process's own flag comes first, then
/// the stripe's word of the control file in shared memory.
///
/// Where memory is not shared, the stripe's byte of that file is locked. The kernel frees it when a process dies. Where the control file cannot be made because the volume is full, the root directory itself is locked instead, for
/// all keys together. The process that makes the control file holds that lock too, so the two ways exclude each other.
final class StripeLocks: Sendable {
  private let table = StripeTable()
  private let root: CacheRoot
  private let controlFiles: ControlFileOpener
  private let sharing: BlobStore.Sharing
  private let timeout: Duration
  private let packs: String

  /// - Parameter packs: the name of the directory of packs.
  init(_ root: CacheRoot, _ controlFiles: ControlFileOpener, packs: String, _ configuration: BlobStore.Configuration) {
    self.root = root
    self.packs = packs
    self.controlFiles = controlFiles
    sharing = configuration.access.sharing
    timeout = configuration.access.lockTimeout
  }

  /// Holds a key, once no other change of it is under way anywhere.
  ///
  /// - Throws: `busy` if others were changing the key until the deadline.
  func hold(_ digest: UInt64) throws -> KeyHold {
    LockOrder.willWait(for: .stripe)
    var backoff = Backoff(timeout: timeout)
    repeat {
      if let hold = try holdIfAvailable(digest, makesControlFile: true) { return hold }
    } while backoff.wait()
    throw try busyError(digest)
  }

  /// Why a stripe could not be had.
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

  /// Runs a change if the stripe is free at once.
  ///
  /// - Parameter makesControlFile: whether the change makes a missing control file, and fails where it cannot be made.
  /// - Returns: nil if another change of the key is under way.
  func holdIfAvailable(_ digest: UInt64, makesControlFile: Bool = false) throws -> KeyHold? {
    guard let stripe = table.stripe(of: digest) else { return nil }
    while true {
      // Without a directory there is nothing to change, and nothing to lock.
      guard let open = try root.opened() else { return KeyHold(digest, stripe, nil, .none) }
      let control: ControlFile?
      do {
        control = try controlFiles.controlFile(of: open, makesIt: makesControlFile)
      } catch let error as FileError where makesControlFile && error.errno == .noSuchFileOrDirectory {
        // Nothing can be made in a directory that was removed.
        guard try self.root.forgetIfReplacedNow() else { throw error }
        continue
      } catch {
        guard !makesControlFile else { throw error }
        // The caller only looks, in a directory that it may not write to: a stripe that cannot be locked is not
        // available.
        return nil
      }
      guard let control else {
        guard let directory = try lockedRoot(open) else { return nil }
        return try judge(KeyHold(digest, stripe, nil, .root(directory)), nil, open, isChange: makesControlFile)
      }
      if sharing == .exclusive {
        return try judge(KeyHold(digest, stripe, control, .none), control, open, isChange: makesControlFile)
      }
      switch try tryTake(digest, in: control, of: open) {
      case false: return nil
      case true:
        let hold = KeyHold(digest, stripe, control, control.isMapped ? .stripeWord : .stripeByte)
        return try judge(hold, control, open, isChange: makesControlFile)
      case nil:
        // The file was deleted meanwhile: this change, or another one, makes a new file.
        open.forget(control)
      }
    }
  }

  /// Refuses a change where the key may have a packed record that this process cannot find, because it shares no memory with
  /// others. The change would leave a file beside that record.
  ///
  /// The caller has what it holds: from here on no process that packs changes the key.
  ///
  /// System calls: none where the memory is shared. Else `openat(2)`, and `fstat(2)` where there are packs.
  ///
  /// - Parameters:
  ///   - control: nil where there is no room for one.
  ///   - isChange: false for a step that is right for a file, also where the key has a packed record.
  /// - Returns: nil if it may be able to share memory soon.
  private func judge(
    _ hold: consuming KeyHold, _ control: ControlFile?, _ open: OpenRoot, isChange: Bool
  ) throws -> KeyHold? {
    if control?.leadsToPacks == true { return hold }
    guard isChange, try open.ownDirectory(packs, makesIt: false) != nil else { return hold }
    guard let control else {
      throw FileError(.allocate, Location(root.path, ControlFile.format.name), .noSpace)
    }
    if control.file.isDamaged { return nil }
    throw BlobStoreError(
      .sharedMemoryRequired,
      "there are packs, and this process cannot share the control file's memory with those that change them, as on a network file "
        + "system", path: root.path)
  }

  /// - Returns: nil if the control file was deleted, replaced or overwritten.
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

  /// The root, locked for want of a control file.
  ///
  /// - Returns: nil if another has it, or a control file was made meanwhile: then its locks are the ones that count.
  private func lockedRoot(_ open: OpenRoot) throws -> Directory? {
    let directory = try open.directory.reopened()
    guard try sharing == .exclusive || directory.tryLock() else { return nil }
    guard try controlFiles.found(in: open) == nil else { return nil }
    return directory
  }
}

// MARK: - All stripes

extension StripeLocks {
  /// The counters at a moment, once each change that was under way then has ended. A store is counted before it is published,
  /// and a listing in between would not meet its record.
  ///
  /// Changes that began later count as made during the enumeration. A change from before the moment that goes on for
  /// `timeout` is not waited for: the reading is not settled then, and no counter may be lowered by it.
  ///
  /// - Parameter isStopped: asked before each wait; if true, nothing is waited for any more.
  func settledCounters(
    of control: ControlFile, within timeout: Duration, unless isStopped: () -> Bool
  ) throws -> CounterReading? {
    guard var reading = control.counterReading() else { return nil }
    var backoff = Backoff(timeout: timeout)
    for stripe in 0..<ControlLayout.stripeCount {
      while try isHeld(stripe, in: control) {
        guard !isStopped(), backoff.wait() else { return reading }
      }
    }
    reading.isSettled = true
    try forgetHeaderChanges(in: control)
    return reading
  }

  private func isHeld(_ stripe: Int, in control: ControlFile) throws -> Bool {
    if table.isTaken(stripe) { return true }
    // A word of this process's without its flag was taken after the flag was looked at, by a later change.
    guard sharing == .shared, let holder = try control.holder(of: stripe) else { return false }
    return holder != control.session.knownToken
  }

  /// Forgets the changes of headers that processes died making, if no change of any kind is under way.
  private func forgetHeaderChanges(in control: ControlFile) throws {
    guard sharing == .shared, control.hasHeaderChanges(.shared) else { return }
    _ = try whileNothingChanges(in: control) { control.forgetHeaderChanges() }
  }

  /// Runs a closure while no record changes, if no change is under way.
  ///
  /// - Returns: nil if one is.
  func whileNothingChanges<Result>(in control: ControlFile, _ body: () throws -> Result) throws -> Result? {
    try table.withAll { sharing == .exclusive ? try body() : try control.withAllWords(body) }
  }
}

#if DEBUG
  extension StripeLocks {
    func checkInvariants() { table.checkInvariants() }
  }
#endif
