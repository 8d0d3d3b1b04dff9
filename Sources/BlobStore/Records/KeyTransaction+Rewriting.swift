internal import BlobRecord
internal import Posix
internal import SystemPackage

/// A header or an extension that was rewritten, in a file that may need a sync once the key is free.
enum RewrittenRecord: ~Copyable {
  /// Nothing is left to do.
  case settled(BlobStore.Outcome)
  /// The record has another name, so its header was left as it is.
  case leftLinked
  case inPlace(OpenFile, entry: RecordDirectory?)
  /// The record had another name, so it was copied; the copy is synced, its directory is not.
  case copied(entry: RecordDirectory?)

  /// Brings the change to the medium.
  ///
  /// - Parameter syncsEntry: whether `full` includes the directory entry, which may be as new as the record.
  consuming func synchronize(
    _ level: BlobStore.Durability.Level, syncsEntry: Bool
  ) throws -> BlobStore.Outcome {
    switch consume self {
    case .settled(let outcome): return outcome
    case .leftLinked: break
    case .inPlace(let file, let entry):
      try file.synchronize(by: level)
      if syncsEntry { try entry?.synchronize() }
    case .copied(let entry): try entry?.synchronize()
    }
    return .done
  }
}

/// The directory of a record, open to be synced.
struct RecordDirectory: ~Copyable {
  /// nil if the root was removed meanwhile, with all in it; then the subdirectory is nil too.
  private let open: OpenRoot?
  private let subdirectory: Directory?

  init(of path: RecordPath, _ root: CacheRoot) throws {
    let opened = try root.opened()
    subdirectory = try path.subdirectory.isEmpty ? nil : opened?.openSubdirectory(path.subdirectory)
    open = opened
  }

  /// Puts the record's directory entry, and that of its directory, on the medium.
  borrowing func synchronize() throws {
    try subdirectory?.synchronize()
    try open?.directory.synchronize()
  }
}

// A header is rewritten by the same rules for a touch, a lock, a load and a collection.
extension KeyTransaction {
  /// Reads the header of a live record, lets a closure change it, and writes it where it lies.
  ///
  /// - Parameter copiesLinked: whether a record with another name is copied for it; else it is left unchanged.
  mutating func rewriteHeader(
    at now: UnixTime, _ level: BlobStore.Durability.Level, copiesLinked: Bool = true,
    _ change: (inout RecordHeader) throws -> HeaderChange
  ) throws -> RewrittenRecord {
    if let outcome = try records.changePackedHeader(of: path, in: open, now, level, &hold, change) {
      return .settled(outcome)
    }
    guard case .regular(let file, let status) = try records.open(path, in: open, for: .readWrite) else {
      return .settled(.notFound)
    }
    let before: RecordHeader
    switch try file.judgeHeader(core.judge(at: now), RecordFacts(fileSize: status.size, nameDigest: path.digest)) {
    case .sound(let header): before = header
    case .expired: return .settled(.notFound)
    case .broken(let error, _): throw DamagedRecord(error: try file.settled(error), path: file.location.path)
    }
    var header = before
    if case .unchanged(let outcome) = try change(&header) { return .settled(outcome) }
    guard copiesLinked || status.linkCount <= 1 else { return .leftLinked }
    // Opened first: once the header is changed, nothing but a sync may fail.
    let entry = level == .full ? try RecordDirectory(of: path, core.root) : nil
    let wasCopied = try records.rewriteHeader(of: path, in: file, status, from: before, to: header, level, &hold)
    return wasCopied ? .copied(entry: entry) : .inPlace(file, entry: entry)
  }

  /// Replaces the extension of a live record.
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
    // What memory keeps of the record is out of date then.
    hold.beginPayloadChange(level)
    let wasCopied = try records.rewriteExtension(of: path, in: file, status, from: header, kept, to: new, level, &hold)
    if wasCopied { try entry?.synchronize() } else { try file.synchronize(by: level) }
    return .done
  }
}

extension StoreCore {
  /// Sets an update time from a clock that was ahead to now, if the stripe is free. A record with another name stays as
  /// it is: a collection does not copy payloads.
  ///
  /// - Returns: the header as it is then; nil if it was not written.
  func stampAnew(_ path: RecordPath) throws -> RecordHeader? {
    guard var transaction = try transactionIfAvailable(of: path) else { return nil }
    var stamped: RecordHeader?
    // The change of generation makes memory read the new time.
    transaction.hold.beginPayloadChange(.none)
    let rewritten = try transaction.rewriteHeader(at: configuration.now(), .none, copiesLinked: false) { header in
      guard header.isStampedAhead(of: configuration.now()) else { return .unchanged(.done) }
      header.updateTime = UInt64(clamping: configuration.now().seconds)
      stamped = header
      return .changed
    }
    if case .leftLinked = rewritten { return nil }
    return stamped
  }
}
