internal import Posix
internal import SystemPackage

/// The locks that serialize changes of a key among all threads of all processes. The process's own flag comes first,
/// then the stripe's byte of the control file. The kernel frees that byte when a process dies.
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

  /// Holds a key, once no other change of it is under way anywhere.
  ///
  /// - Throws: `busy` if others were changing the key until the deadline.
  func hold(_ digest: UInt64) throws -> KeyHold {
    var backoff = Backoff(timeout: timeout)
    repeat {
      if let hold = try holdIfAvailable(digest, makesControlFile: true) { return hold }
    } while backoff.wait()
    throw BlobStoreError(.busy, "others have been changing this key, or one that shares its lock, for \(timeout)")
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
        return KeyHold(digest, stripe, nil, .root(directory))
      }
      if sharing == .exclusive { return KeyHold(digest, stripe, control, .none) }
      switch try control.file.tryLock(ControlLayout.stripeByte(of: digest), in: open.directory) {
      case false: return nil
      case true: return KeyHold(digest, stripe, control, .stripeByte)
      case nil:
        // The file was deleted meanwhile: this change, or another one, makes a new file.
        open.forget(control)
      }
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

#if DEBUG
  extension StripeLocks {
    func checkInvariants() { table.checkInvariants() }
  }
#endif
