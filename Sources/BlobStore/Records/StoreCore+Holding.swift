internal import BlobRecord
internal import Posix

// A key is held by these alone, so that each change begins where the one before has ended.
extension StoreCore {
  /// Holds a key, and finishes what a dead holder of its stripe has announced.
  ///
  /// - Throws: as `StripeLocks.hold`; what keeps a change from being finished.
  func hold(_ digest: UInt64) throws -> KeyHold {
    var hold = try stripes.hold(digest)
    try finish(&hold)
    return hold
  }

  /// Holds a key as `hold` does, if that can be done at once.
  ///
  /// - Returns: nil if another change of the key is under way.
  func holdIfAvailable(_ digest: UInt64, makesControlFile: Bool = false) throws -> KeyHold? {
    guard var hold = try stripes.holdIfAvailable(digest, makesControlFile: makesControlFile) else { return nil }
    try finish(&hold)
    return hold
  }

  /// Holds a key for a change of its record.
  ///
  /// - Parameter path: of the record, by the arrangement of any directory.
  /// - Returns: nil if there is no directory.
  func transaction(of path: RecordPath) throws -> KeyTransaction? {
    let hold = try hold(path.digest)
    guard let open = try root.opened() else { return nil }
    return KeyTransaction(open.placed(path), in: open, records, hold)
  }

  /// Holds a key for a change of its record, if that can be done at once.
  ///
  /// - Returns: nil if another change of the key is under way, or there is no directory.
  func transactionIfAvailable(of path: RecordPath) throws -> KeyTransaction? {
    guard let hold = try holdIfAvailable(path.digest), let open = try root.opened() else { return nil }
    return KeyTransaction(open.placed(path), in: open, records, hold)
  }

  private func finish(_ hold: inout KeyHold) throws {
    guard hold.hasIntents, let open = try root.opened(), var packs = try records.packs(of: open) else { return }
    try packs.finish(&hold)
  }
}
