internal import BlobRecord
internal import Posix

// Keys are held only by these functions, which first finish a change that a dead process has left incomplete.
extension Records {
  /// Holds a key, and finishes a change that a process announced for its stripe before it died.
  func hold(_ digest: UInt64) throws -> KeyHold {
    var hold = try core.stripes.hold(digest)
    try finish(&hold)
    return hold
  }

  /// Holds a key like `hold`, but without waiting. Returns `nil` if another change holds the key's stripe.
  func holdIfAvailable(_ digest: UInt64, makesControlFile: Bool = false) throws -> KeyHold? {
    guard var hold = try core.stripes.holdIfAvailable(digest, makesControlFile: makesControlFile) else { return nil }
    try finish(&hold)
    return hold
  }

  /// Holds the key of a path, in the arrangement of any directory, for a change. Returns `nil` without a directory.
  func transaction(of path: RecordPath) throws -> KeyTransaction? {
    let hold = try hold(path.digest)
    guard let open = try core.root.opened() else { return nil }
    return try transaction(of: path, in: open, hold)
  }

  /// Holds a key like `transaction`, but without waiting. Returns `nil` also if another change holds the stripe.
  func transactionIfAvailable(of path: RecordPath) throws -> KeyTransaction? {
    guard let hold = try holdIfAvailable(path.digest), let open = try core.root.opened() else { return nil }
    return try transaction(of: path, in: open, hold)
  }

  /// Begins a change of a held key at the path of its file, or at the path for a new file.
  func transaction(of path: RecordPath, in open: OpenRoot, _ hold: consuming KeyHold) throws -> KeyTransaction {
    KeyTransaction(try core.resolved(path, in: open), in: open, self, hold)
  }

  private func finish(_ hold: inout KeyHold) throws {
    guard hold.hasIntents, let open = try core.root.opened(), var packs = try packs(of: open) else { return }
    try packs.finish(&hold)
  }
}
