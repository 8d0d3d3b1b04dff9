package import BlobRecord
internal import Posix

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
