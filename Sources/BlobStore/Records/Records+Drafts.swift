internal import BlobRecord
internal import Posix

// The engine of a new record, and its draft.
extension Records {
  /// Makes the draft of a record: in a pack if the record belongs there, and otherwise in a file.
  ///
  /// - Parameters:
  ///   - body: The payload and extension, or `nil` if they are not in memory, so that the record cannot be packed.
  ///   - open: A directory for stores, from `Publisher.madeRoot`.
  ///   - fill: A closure that writes the file, and may complete the header.
  func draft(
    _ pending: inout PendingStore, _ body: PackedBody?, at path: RecordPath, in open: OpenRoot,
    _ attempt: inout DraftLoop.Attempt, fill: (borrowing OpenFile, inout RecordHeader) throws -> Void
  ) throws -> Draft {
    pending.forgetKeptLocks()
    if let body, let draft = try packedDraft(pending.header, body, at: path, in: open, &attempt) { return draft }
    let subdirectory = try open.madeSubdirectory(path.subdirectory)
    let draft = try files.supply.draft(for: pending.header, at: path, attempt.ways, in: subdirectory, of: open)
    attempt.kind = draft.kind
    try draft.fill(&pending.header, fill)
    attempt.byteCount = pending.header.fileByteCount
    return .file(draft)
  }

  /// Returns a draft for a pack, or `nil` if the record must be stored as a file.
  func packedDraft(
    _ header: RecordHeader, _ body: PackedBody, at path: RecordPath, in open: OpenRoot,
    _ attempt: inout DraftLoop.Attempt
  ) throws -> Draft? {
    guard attempt.ways.mayPack, belongsInPack(header, at: path, in: open) else { return nil }
    attempt.kind = .packed
    guard let packs = try madePacks(of: open) else {
      attempt.kind = nil
      return nil
    }
    packs.packs.prefetch(forChangeOf: path.digest)
    return .packed(PackedDraft(body), in: packs)
  }

  /// Returns whether a payload of this size must be in memory to be stored, because it may be packed, as far as is known
  /// before the directory is opened.
  func mayPack(payloadOf byteCount: Int64) -> Bool {
    guard core.configuration.mayPack else { return false }
    guard let packing = core.root.lastOpened?.packing ?? core.configuration.packing else {
      return byteCount <= BlobStore.Packing.largestBound
    }
    return packing.bound.map { byteCount <= $0 } ?? false
  }

  /// Returns whether a record belongs into a pack, by the directory's settings.
  func belongsInPack(_ header: RecordHeader, at path: RecordPath, in open: OpenRoot) -> Bool {
    guard let bound = open.packing?.bound, !header.flags.contains(.streamIncomplete),
      let payload = Int(exactly: header.payloadSize),
      let byteCount = PackLayout.recordByteCount(
        name: path.fileName.utf8.count, payload: payload, tail: Int(header.extensionEnd ?? 0))
    else { return false }
    return byteCount <= bound
  }

  /// Returns a directory's packs, creating missing ones, or `nil` if processes cannot share memory.
  func madePacks(of open: OpenRoot) throws -> PackRecords? {
    guard let control = try core.controlFiles.controlFile(of: open, makesIt: true),
      let packs = try core.packHolder.packs(of: open, control, makesThem: true)
    else { return nil }
    return PackRecords(packs, of: core, in: open)
  }

  /// Returns the record, in either engine, that a packed record replaces. Throws like the other `recordToReplace`.
  func recordToReplace(
    _ transaction: borrowing KeyTransaction, _ packs: PackRecords, by judge: RecordJudge
  ) throws -> FoundRecord? {
    let (path, open) = (transaction.path, transaction.open)
    let found = try packs.find(path, by: judge)
    if found != nil { return found }
    guard try core.hasFile(path, in: open) else { return nil }
    return try core.lookUpInSubdirectory(of: path, open) { directory in
      try recordToReplace(at: path, in: directory, of: open, by: judge)
    }
  }
}

extension FileDraft {
  mutating func rewrite(_ header: RecordHeader) throws {
    try header.withEncodedBytes { head throws(FileError) in try file.write(head, at: 0) }
    wasWritten()
  }

  mutating func isReady(for level: BlobStore.Durability.Level, _ header: RecordHeader) throws -> Bool {
    if isRecycled, level > .none || header.isLocked || !isStillSafe { throw UnfitForRecycling() }
    guard level > syncedLevel else { return true }
    guard syncCount >= Self.syncsBesideOthers else { return false }
    try makeDurable(level)
    return true
  }

  /// The number of syncs of a record while the locks of the replaced record change concurrently. After that, the
  /// record is synced while the key is held; otherwise, a store concurrent with endless changes would never end.
  private static var syncsBesideOthers: Int { 3 }

  borrowing func finish(_ level: BlobStore.Durability.Level, at path: RecordPath, of open: OpenRoot) throws {
    guard level == .full else { return }
    do {
      try synchronizeName(at: path, of: open)
    } catch {
      throw Published(cause: error)
    }
  }

  borrowing func synchronizeName(at path: RecordPath, of open: OpenRoot) throws(FileError) {
    try subdirectory.directory.synchronize()
    if !path.subdirectory.isEmpty { try open.directory.synchronize() }
  }
}
