internal import BlobRecord
internal import Posix

// What a store does that finds the volume full.
extension StoreCore {
  /// Makes a collection that, where there is a limit, evicts as much as a file takes, and as much as one does that finds the
  /// limit exceeded, whether it is or not.
  ///
  /// - Parameter isMade: asked once nobody else can collect: whether another thread has made room meanwhile.
  /// - Returns: nil if one has.
  func makeRoom(
    for byteCount: Int64, _ options: BlobStore.CollectionOptions, _ isSpared: @escaping (UInt64) -> Bool,
    unless isMade: () -> Bool
  ) throws -> BlobStore.CollectionReport? {
    try withCollectorLock(options) { control -> BlobStore.CollectionReport? in
      if isMade() { return nil }
      let pass = CollectionPass(store: self, options: options, control: control)
      pass.isSpared = isSpared
      pass.roomWanted = byteCount
      try timed(pass, .whole) {
        try correctingCounters(unless: { pass.isStopped }) {
          try pass.run(since: .now)
          return pass.enumeration
        }
      }
      return pass.report
    }
  }
}
