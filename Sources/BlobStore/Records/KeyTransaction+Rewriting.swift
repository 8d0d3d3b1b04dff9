internal import BlobRecord
internal import Posix
internal import SystemPackage

/// A rewritten header or extension in a file that may need a sync after the key is released.
enum RewrittenRecord: ~Copyable {
  /// Nothing is left to sync. If `isLeftLinked`, the header was not changed because the record has another hard link.
  case settled(BlobStore.Outcome, isLeftLinked: Bool)
  case inPlace(OpenFile, entry: RecordDirectory?)
  /// The record has another hard link, so it was copied. The copy is synced, but its directory is not.
  case copied(entry: RecordDirectory?)

  /// Syncs the change. If `syncsEntry`, the level `full` also syncs the directory entry, which may be new.
  consuming func synchronize(
    _ level: BlobStore.Durability.Level, syncsEntry: Bool
  ) throws -> BlobStore.Outcome {
    switch consume self {
    case .settled(let outcome, _): return outcome
    case .inPlace(let file, let entry):
      try file.synchronize(by: level)
      if syncsEntry { try entry?.synchronize() }
    case .copied(let entry): try entry?.synchronize()
    }
    return .done
  }
}

struct RecordDirectory: ~Copyable {
  /// `nil` if the root no longer exists; the subdirectory is `nil` too then.
  private let open: OpenRoot?
  private let subdirectory: Directory?

  init(of path: RecordPath, _ root: CacheRoot) throws {
    let opened = try root.opened()
    subdirectory = try path.subdirectory.isEmpty ? nil : opened?.openSubdirectory(path.subdirectory)
    open = opened
  }

  borrowing func synchronize() throws {
    try subdirectory?.synchronize()
    try open?.directory.synchronize()
  }
}

// Headers are rewritten by the same rules for a touch, a lock, a load and a collection.
extension KeyTransaction {
  /// Changes the header of a live record in place. If `copiesLinked`, a record with another hard link is copied for
  /// the change; otherwise, it is not changed.
  mutating func rewriteHeader(
    at now: UnixTime, _ level: BlobStore.Durability.Level, copiesLinked: Bool = true,
    _ change: (inout RecordHeader) throws -> HeaderChange
  ) throws -> RewrittenRecord {
    if let outcome = try records.changePackedHeader(of: path, in: open, now, level, &hold, change) {
      return .settled(outcome, isLeftLinked: false)
    }
    guard case .regular(let file, let status) = try records.open(path, in: open, for: .readWrite) else {
      return .settled(.notFound, isLeftLinked: false)
    }
    let before: RecordHeader
    switch try file.judgeHeader(core.judge(at: now), RecordFacts(fileSize: status.size, nameDigest: path.digest)) {
    case .sound(let header): before = header
    case .expired: return .settled(.notFound, isLeftLinked: false)
    case .broken(let error, _): throw DamagedRecord(error: try file.settled(error), path: file.location.path)
    }
    var header = before
    if case .unchanged(let outcome) = try change(&header) { return .settled(outcome, isLeftLinked: false) }
    guard copiesLinked || status.linkCount <= 1 else { return .settled(.done, isLeftLinked: true) }
    // The directory is opened first, because after the change of the header only the sync may fail.
    let entry = level == .full ? try RecordDirectory(of: path, core.root) : nil
    let wasCopied = try records.rewriteHeader(of: path, in: file, status, from: before, to: header, level, &hold)
    return wasCopied ? .copied(entry: entry) : .inPlace(file, entry: entry)
  }

  mutating func rewriteExtension(_ change: (inout RecordExtension) -> Void) throws -> BlobStore.Outcome {
    let now = core.configuration.now()
    if let outcome = try records.changePackedExtension(of: path, in: open, now, &hold, change) { return outcome }
    guard case .regular(let file, let status) = try records.open(path, in: open, for: .readWrite) else {
      return .notFound
    }
    let (verdict, kept) = try records.judgeWithExtension(file, status, at: path, now: now)
    let header: RecordHeader
    switch verdict {
    case .sound(let sound): header = sound
    case .expired: return .notFound
    case .broken(let error, _): throw DamagedRecord(error: try file.settled(error), path: file.location.path)
    }
    var new = kept ?? RecordExtension()
    change(&new)
    guard new != kept ?? RecordExtension() else { return .done }
    let level = level(concernsLock: header.isLocked)
    let entry = level == .full ? try RecordDirectory(of: path, core.root) : nil
    // Memory tiers must discard their copy of the record.
    hold.beginPayloadChange(level)
    let wasCopied = try records.rewriteExtension(of: path, in: file, status, from: header, kept, to: new, level, &hold)
    if wasCopied { try entry?.synchronize() } else { try file.synchronize(by: level) }
    return .done
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
