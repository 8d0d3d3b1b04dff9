internal import BlobRecord
internal import Posix
internal import SystemPackage

// A header is written under the same rules by a touch, a lock, a load and a collection.
extension StoreCore {
  /// A written header, in a file that may need a sync once the stripe is free.
  enum WrittenHeader: ~Copyable {
    case none(BlobStore.Outcome)
    case inPlace(OpenFile, entry: RecordDirectory?)
    /// The record had another name, so it was copied; the copy is synced, its directory is not.
    case copied(entry: RecordDirectory?)
    /// It lies in a pack, and all is done.
    case packed(BlobStore.Outcome)
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

  /// The part under the stripe.
  ///
  /// - Parameter copiesLinked: whether a record with another name is copied for it; else it is left unchanged.
  func writeHeader(
    at path: RecordPath, _ now: UnixTime, _ level: BlobStore.Durability.Level, _ hold: inout KeyHold,
    copiesLinked: Bool = true,
    _ change: (inout RecordHeader) throws -> HeaderChange
  ) throws -> WrittenHeader {
    guard let open = try root.opened() else { return .none(.notFound) }
    let path = open.placed(path)
    if let outcome = try records.changePackedHeader(of: path, in: open, now, level, &hold, change) {
      return .packed(outcome)
    }
    guard case .regular(let file, let status) = try records.open(path, in: open, for: .readWrite) else {
      return .none(.notFound)
    }
    let before: RecordHeader
    switch try file.judgeHeader(judge(at: now), RecordFacts(fileSize: status.size, nameDigest: path.digest)) {
    case .sound(let header): before = header
    case .expired: return .none(.notFound)
    case .broken(let error, _): throw DamagedRecord(error: try file.settled(error), path: file.location.path)
    }
    var header = before
    if case .unchanged(let outcome) = try change(&header) { return .none(outcome) }
    guard copiesLinked || status.linkCount <= 1 else { return .none(.done) }
    // Opened first: once the header is changed, nothing but a sync may fail.
    let entry = level == .full ? try RecordDirectory(of: path, root) : nil
    let wasCopied = try records.rewriteHeader(of: path, in: file, status, from: before, to: header, level, &hold)
    return wasCopied ? .copied(entry: entry) : .inPlace(file, entry: entry)
  }

  /// Sets an update time from a clock that was ahead to now, if the stripe is free. A record with another name stays as
  /// it is: a collection does not copy payloads.
  ///
  /// - Returns: the header as it is then; nil if it was not written.
  func stampAnew(_ path: RecordPath) throws -> RecordHeader? {
    guard var hold = try holdIfAvailable(path.digest) else { return nil }
    var stamped: RecordHeader?
    // The change of generation makes memory read the new time.
    hold.beginPayloadChange(.none)
    let written = try writeHeader(at: path, configuration.now(), .none, &hold, copiesLinked: false) { header in
      guard header.isStampedAhead(of: configuration.now()) else { return .unchanged(.done) }
      header.updateTime = UInt64(clamping: configuration.now().seconds)
      stamped = header
      return .changed
    }
    // It has another name.
    if case .none = written { return nil }
    return stamped
  }
}
