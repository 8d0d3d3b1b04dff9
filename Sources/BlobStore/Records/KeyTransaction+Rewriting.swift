internal import BlobRecord
internal import Posix

// Headers are rewritten by the same rules for a touch, a lock, a load and a collection.
extension KeyTransaction {
  /// Changes the header of a live record. If `copiesLinked`, a file with another hard link is copied for the change;
  /// otherwise, it is not changed.
  mutating func rewriteHeader(
    at now: UnixTime, _ level: BlobStore.Durability.Level, copiesLinked: Bool = true,
    _ change: (inout RecordHeader) throws -> HeaderChange
  ) throws -> RewrittenRecord {
    try records.rewriteHeader(of: path, in: open, at: now, level, copiesLinked: copiesLinked, &hold, change)
  }

  mutating func rewriteExtension(_ change: (inout RecordExtension) -> Void) throws -> BlobStore.Outcome {
    try records.rewriteExtension(of: path, in: open, at: core.configuration.now(), &hold, change)
  }
}

extension Records {
  /// Replaces an update time from a clock that was ahead by the current time. Returns `nil` if the header was not
  /// written, for example because the record has another hard link, since a collection does not copy payloads.
  func stampAnew(_ path: RecordPath) throws -> RecordHeader? {
    guard var transaction = try transactionIfAvailable(of: path) else { return nil }
    var stamped: RecordHeader?
    // The change of generation makes memory tiers read the new time.
    transaction.hold.beginPayloadChange(.none)
    let rewritten = try transaction.rewriteHeader(at: core.configuration.now(), .none, copiesLinked: false) { header in
      guard header.isStampedAhead(of: core.configuration.now()) else { return .unchanged(.done) }
      header.updateTime = UInt64(clamping: core.configuration.now().seconds)
      stamped = header
      return .changed
    }
    if case .settled(_, isLeftLinked: true) = rewritten { return nil }
    return stamped
  }
}
