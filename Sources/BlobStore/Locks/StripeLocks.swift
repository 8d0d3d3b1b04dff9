internal import Posix
internal import SystemPackage

/// The locks that serialize changes of a key among all threads of all processes: the process's own mutex first, then
/// the stripe's byte of the control file, which the kernel frees when a process dies.
///
/// Where the control file cannot be made because the volume is full, the root directory itself is locked instead, for
/// all keys together. The process that makes the control file holds that lock too, so the two ways exclude each other.
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

  /// Runs a change if the stripe is free at once.
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
      guard let open = try root.opened() else { return try body(KeyHold(control: nil, digest: digest)) }
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
      guard let control else { return try tryDirectoryLock(open, digest, body) }
      if sharing == .exclusive { return try body(KeyHold(control: control, digest: digest)) }
      switch try control.file.tryLock(bytes, in: open.directory) {
      case false: return nil
      case true:
        defer { control.file.unlock(bytes) }
        return try body(KeyHold(control: control, digest: digest))
      case nil:
        // The file was deleted meanwhile: this change, or another one, makes a new file.
        open.forget(control)
      }
    }
  }
}

extension StripeLocks {
  /// Locks the directory for want of a control file.
  private func tryDirectoryLock<Result: ~Copyable>(
    _ open: OpenRoot, _ digest: UInt64, _ body: (borrowing KeyHold) throws -> Result
  ) throws -> Result? {
    let directory = try open.directory.reopened()
    guard try sharing == .exclusive || directory.tryLock() else { return nil }
    // Made meanwhile: then its locks are the ones that count.
    guard try controlFiles.found(in: open) == nil else { return nil }
    return try body(KeyHold(control: nil, digest: digest))
  }
}

#if DEBUG
  extension StripeLocks {
    func checkInvariants() { table.checkInvariants() }
  }
#endif
