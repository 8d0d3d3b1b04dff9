package import BlobRecord
internal import Posix
internal import Locks

extension BlobStore {
  /// Tries to become the one, of all processes that share the directory, who makes the blob of a key that is missing.
  ///
  /// This excludes nobody from changing the key: it only keeps processes that ask from doing the same work. Keys may
  /// share a lock, so that one has to wait for another. Within the process it excludes nobody.
  ///
  /// - Returns: nil if another process has it; else what gives it back, to be called once.
  package func tryProductionLock(of key: BlobKey) throws(BlobStoreError) -> (@Sendable () -> Void)? {
    try reporting("load", key) {
      guard core.configuration.access.sharing == .shared else { return {} }
      let path = try core.path(for: key)
      while true {
        let open = try core.root.openedOrMade()
        // Without a control file nobody can tell; then more than one may do the work.
        guard let control = try core.controlFiles.controlFile(of: open, makesIt: true) else { return {} }
        switch try core.productions.tryLock(path.digest, of: control, in: open.directory) {
        case true: return { [productions = core.productions] in productions.unlock(path.digest, of: control) }
        case false: return nil
        case nil: open.forget(control)
        }
      }
    }
  }
}

/// Which production locks this process has, and how often: the kernel counts one for all its threads.
final class ProductionLocks: Sendable {
  private struct Held: Hashable {
    let control: ObjectIdentifier
    let byte: Int64
  }

  private let held = Lock<[Held: Int]>([:])

  /// - Returns: nil if the control file was deleted.
  func tryLock(_ digest: UInt64, of control: ControlFile, in directory: borrowing Directory) throws -> Bool? {
    let bytes = ControlLayout.productionByte(of: digest)
    let key = Held(control: ObjectIdentifier(control), byte: bytes.lowerBound)
    // Under the mutex, because one thread's unlock must not take what another has just been given.
    return try held.withLock { held in
      if let count = held[key] {
        held[key] = count + 1
        return true
      }
      let isTaken = try control.file.tryLock(bytes, in: directory)
      if isTaken == true { held[key] = 1 }
      return isTaken
    }
  }

  func unlock(_ digest: UInt64, of control: ControlFile) {
    let bytes = ControlLayout.productionByte(of: digest)
    let key = Held(control: ObjectIdentifier(control), byte: bytes.lowerBound)
    held.withLock { held in
      guard let count = held[key] else { return }
      held[key] = count > 1 ? count - 1 : nil
      if count == 1 { control.file.unlock(bytes) }
    }
  }
}
