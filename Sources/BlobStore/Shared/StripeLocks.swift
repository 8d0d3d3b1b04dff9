internal import BlobRecord
internal import Logging
internal import Posix
internal import SystemPackage

/// The locks that serialize changes of a key among all threads of all processes: the process's own mutex first, then
/// the stripe's byte of the control file, which the kernel frees when a process dies.
///
/// Where the control file cannot be made because the volume is full, the root directory itself is locked instead, for
/// all keys together. Whoever makes the control file holds that lock too, so the two ways exclude each other.
final class StripeLocks: Sendable {
  private let table = StripeTable()
  private let root: RootDirectory
  private let names: TemporaryNames
  private let sharing: BlobStore.Sharing
  private let timeout: Duration
  private let logger: Logger
  private let hint: DirectoryHint?

  init(
    _ root: RootDirectory, names: TemporaryNames, configuration: BlobStore.Configuration, defaultExpiration: Int64
  ) {
    self.root = root
    self.names = names
    sharing = configuration.access.sharing
    timeout = configuration.access.lockTimeout
    logger = configuration.logger
    hint =
      configuration.access.leavesHint
      ? DirectoryHint(
        defaultExpiration: defaultExpiration, sizeLimit: configuration.limits.size, layout: configuration.layout)
      : nil
  }

  /// Runs a change when no other change of the key is under way, anywhere.
  ///
  /// - Throws: `busy` if others were at it until the deadline.
  func withStripe<Result: ~Copyable>(of digest: UInt64, _ body: (borrowing KeyHold) throws -> Result) throws -> Result {
    var backoff = Backoff(timeout: timeout)
    repeat {
      let result = try table.withStripeIfAvailable(of: digest) {
        var result = try tryFileLock(digest, makesControlFile: true, body)
        while result == nil, backoff.wait() { result = try tryFileLock(digest, makesControlFile: true, body) }
        return result
      }
      if let result { return result }
    } while backoff.wait()
    throw BlobStoreError(.busy, "others have been changing this key, or one that shares its lock, for \(timeout)")
  }

  /// The same, but only if it can be had at once.
  ///
  /// - Parameter makesControlFile: whether the change is one that makes the control file where there is none, and fails where
  ///   there can be none.
  /// - Returns: nil, without calling `body`, if another change of the key is under way.
  func withStripeIfAvailable<Result>(
    of digest: UInt64, makesControlFile: Bool = false, _ body: (borrowing KeyHold) throws -> Result
  ) throws -> Result? {
    try table.withStripeIfAvailable(of: digest) {
      try tryFileLock(digest, makesControlFile: makesControlFile, body)
    }
  }

  /// - Returns: nil, without calling `body`, if another process has the stripe.
  private func tryFileLock<Result: ~Copyable>(
    _ digest: UInt64, makesControlFile: Bool, _ body: (borrowing KeyHold) throws -> Result
  ) throws -> Result? {
    let bytes = ControlLayout.stripeByte(of: digest)
    while true {
      // Without a directory there is nothing to change, and nothing to lock.
      guard let root = try root.opened() else { return try body(KeyHold(control: nil, digest: digest)) }
      let control: ControlFile?
      do {
        control = try controlFile(of: root, makesIt: makesControlFile)
      } catch let error as FileError where makesControlFile && error.errno == .noSuchFileOrDirectory {
        // Nothing can be made in a directory that was removed.
        guard try self.root.forgetIfReplacedNow() else { throw error }
        continue
      } catch {
        guard !makesControlFile else { throw error }
        // Somebody who only looks, in a directory that may not be written to: what cannot be locked is not available.
        return nil
      }
      guard let control else { return try tryDirectoryLock(root, digest, body) }
      if sharing == .exclusive { return try body(KeyHold(control: control, digest: digest)) }
      switch try control.tryLock(bytes, in: root) {
      case false: return nil
      case true:
        defer { control.unlock(bytes) }
        return try body(KeyHold(control: control, digest: digest))
      case nil:
        // The file was deleted under us, and whoever comes now makes a new one.
        root.forget(control)
      }
    }
  }
}

// MARK: - The control file

extension StripeLocks {
  /// The control file, for a change if it is to be made.
  ///
  /// - Returns: nil if there is none, and it was not to be made or could not be.
  func controlFile(of root: RootDirectory.Opened, makesIt: Bool) throws -> ControlFile? {
    let control = try openedControlFile(of: root, makesIt: makesIt)
    if makesIt, let control {
      control.shutReadersOut(logger)
      if let hint { control.leaveHint(hint) }
    }
    return control
  }

  private func openedControlFile(of root: RootDirectory.Opened, makesIt: Bool) throws -> ControlFile? {
    let found = try root.controlFile(logger)
    if let found, !found.isDamaged || !makesIt { return found }
    guard makesIt else { return nil }
    if root.isOpenToReaders {
      // Who may only read could hold the directory's lock for ever, so nothing may need it: the new file takes its name only
      // if that is free, and who replaces a damaged one holds all of its bytes.
      return try newControlFile(of: root, replacing: found)
    }
    // Keeps those off who change something under this lock for want of a control file.
    let directory = try root.directory.reopened()
    guard try directory.tryLock() else { return found }
    return try newControlFile(of: root, replacing: found)
  }

  /// The control file that takes the place of one that is damaged, or of none.
  ///
  /// - Returns: the damaged one, or nil, if there is no room for another or somebody is changing something.
  private func newControlFile(of root: RootDirectory.Opened, replacing found: ControlFile?) throws -> ControlFile? {
    do {
      if let found {
        guard try ControlFile.replaceDamaged(in: root, names: names, logger) else { return found }
        root.forget(found)
      } else if let control = try root.controlFile(logger) {
        return control
      } else {
        _ = try ControlFile.make(in: root, names: names)
      }
    } catch let error as FileError where error.isLackOfRoom {
      logger.debug("no control file: \(BlobStoreError(error, operation: "make", key: nil))")
      guard found == nil, root.isOpenToReaders else { return found }
      do {
        try ControlFile.makeEmpty(in: root, names: names)
      } catch let error as FileError where error.isLackOfRoom {
        // Not even a name: the directory's own lock is all there is.
        return nil
      }
    }
    return try root.controlFile(logger)
  }

  /// Locks the directory for want of a control file.
  private func tryDirectoryLock<Result: ~Copyable>(
    _ root: RootDirectory.Opened, _ digest: UInt64, _ body: (borrowing KeyHold) throws -> Result
  ) throws -> Result? {
    let directory = try root.directory.reopened()
    guard try sharing == .exclusive || directory.tryLock() else { return nil }
    // Made meanwhile: then its locks are the ones that count.
    guard try root.controlFile(logger) == nil else { return nil }
    return try body(KeyHold(control: nil, digest: digest))
  }
}
