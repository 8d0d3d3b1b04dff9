package import BlobRecord
internal import Posix

extension BlobStore {
  /// Tries to become the one process, of all that share the directory, that makes the blob of a missing key.
  ///
  /// All processes may still change the key: the lock only keeps those that ask for it from doing equal work. Keys may
  /// share a lock, so one may have to wait for another. It does not exclude threads of its own process.
  ///
  /// - Returns: nil if another process has it; else what gives it back, to be called once.
  package func tryProductionLock(of key: BlobKey) throws(BlobStoreError) -> (@Sendable () -> Void)? {
    try withErrorContext("load", key) {
      guard core.configuration.access.sharing == .shared else { return {} }
      let path = try core.path(for: key)
      while true {
        let open = try publisher.madeRootOfLocks()
        // Without a control file there is no lock; then more than one process may do the work.
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
