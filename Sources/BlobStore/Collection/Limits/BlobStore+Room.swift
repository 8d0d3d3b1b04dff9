internal import BlobRecord
internal import Posix

// What a store does that finds the volume full.
extension BlobStore {
  /// Makes room for a file: what waits to be overwritten goes first, then what a collection may remove.
  ///
  /// - Parameters:
  ///   - byteCount: of the file, as far as it is known.
  ///   - digest: of the record, which is not to lose what it has for it.
  ///   - rescues: collections that had been made for want of room when it was tried last.
  /// - Returns: whether another try is worth it.
  func makesRoom(for byteCount: Int64, of digest: UInt64, after rescues: Int) -> Bool {
    makesRoomByEmptyingBin() || keeper?.makesRoom(for: byteCount, of: digest, after: rescues) == true
  }

  /// Runs what may find no room, until it does or none can be made.
  func makingRoom<Result>(for byteCount: Int64, of digest: UInt64, _ body: () throws -> Result) throws -> Result {
    while true {
      let rescues = keeper?.rescue.collections ?? 0
      do {
        return try body()
      } catch let error as FileError where error.isLackOfRoom {
        guard makesRoom(for: byteCount, of: digest, after: rescues) else { throw error }
      }
    }
  }

  /// Makes a collection that, where there is a limit, evicts as much as a file takes, and as much as one does that finds the
  /// limit exceeded, whether it is or not.
  ///
  /// - Parameter isMade: asked once nobody else can collect: whether another thread has made room meanwhile.
  /// - Returns: nil if one has.
  func makeRoom(
    for byteCount: Int64, _ options: CollectionOptions, _ isSpared: @escaping (UInt64) -> Bool,
    unless isMade: () -> Bool
  ) throws -> CollectionReport? {
    try withCollectorLock(options) { control -> CollectionReport? in
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
