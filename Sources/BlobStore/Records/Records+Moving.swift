internal import BlobRecord
internal import Posix

extension Records {
  /// Moves a packed record to a file; does nothing if the record is not packed.
  func moveToFile(_ name: RecordPath, in open: OpenRoot, _ hold: inout KeyHold) throws {
    let found = try findPacked(name, of: open, by: RecordJudge())
    guard let content = try packs(of: open)?.content(of: name)?.1 else { return }
    let bytes = content.fileBytes
    let level = core.configuration.durability.level(concernsLock: content.header.isLocked)
    var loop = DraftLoop(self, DraftAttempts(mayRecycle: false, canWriteAgain: true), byteCount: Int64(bytes.count))
    _ = try loop.run(at: name, NoRoom()) { attempt in
      let subdirectory = OpenSubdirectory(try open.openOrMakeSubdirectory(name.subdirectory))
      var draft = try draft(of: bytes, in: subdirectory, of: open)
      attempt.kind = draft.kind
      try files.prepare(&draft, level)
      return try commit(
        &draft, content.header, as: name, replacing: found, isSureOfName: true, level, of: open, &hold)
    }
  }

  /// Unlinks a file that a power failure has left under a packed record's name. This precedes the announcement of the
  /// replacing file; otherwise, finishing that change would take the old file for the new one.
  func removeFileBeneath(_ name: RecordPath, of open: OpenRoot) throws {
    _ = try core.lookUpInSubdirectory(of: name, open) { try $0.unlink(name.fileName) ? true : nil }
  }

  private func draft(of bytes: [UInt8], in subdirectory: OpenSubdirectory, of open: OpenRoot) throws -> FileDraft {
    let draft = try FileDraft(in: subdirectory, of: open.ownership, names: core.temporaryNames)
    try draft.file.write(unsafe bytes.span.bytes, at: 0)
    return draft
  }

  /// Moves a packed record to a file in a directory. If its header is damaged, the bytes are copied unchanged.
  func movePacked(
    _ found: borrowing FoundRecord, to directory: OpenSubdirectory, _ level: BlobStore.Durability.Level,
    of open: OpenRoot, _ hold: inout KeyHold
  ) throws {
    if let address = found.packAddress,
      let bytes = try packs(of: open)?.copy(of: found.name, at: PackAddress(rawValue: address))
    {
      var draft = try draft(of: bytes, in: directory, of: open)
      try draft.replace(found.name.fileName)
    }
    _ = try remove(found, level, recycling: false, in: open.directory, of: open, &hold)
  }
}

extension KeyTransaction {
  /// Moves the record from a pack to a separate file; does nothing if it is not packed.
  mutating func moveToFile() throws { try records.moveToFile(path, in: open, &hold) }

  enum Move {
    /// The record was moved. Its size in bytes is that of its file.
    case done(Int64)
    /// The record was removed, or is already in that engine.
    case gone
    case unsuited, expired, damaged
  }

  enum Engine {
    case files, packs
  }

  /// Moves the record to an engine, if it is sound and live. Throws `PacksAreFull` or `IndexIsFull`, with nothing moved.
  mutating func move(to engine: Engine) throws -> Move {
    let judge = core.judge(at: core.configuration.now())
    switch engine {
    case .files:
      let found = try records.findPacked(path, of: open, by: judge, comparesPayload: true)
      if let reason = try Self.reasonToStay(found, isPacked: true) { return reason }
      try moveToFile()
      return .done(Self.header(of: found)?.fileByteCount ?? 0)
    case .packs:
      let found = try core.lookUpInSubdirectory(of: path, open) { directory in
        try records.recordToRemove(at: path, in: directory, of: open, by: judge)
      }
      if let reason = try Self.reasonToStay(found, isPacked: false) { return reason }
      guard let header = Self.header(of: found) else { return .gone }
      guard records.belongsInPack(header, at: path, in: open), var packs = try records.madePacks(of: open) else {
        return .unsuited
      }
      guard let body = try body(of: header) else { return .damaged }
      try unsafe body.withUnsafeBytes { body in
        var draft = unsafe PackedDraft(PackedBody(body, payload: Int(header.payloadSize)))
        let level = level(concernsLock: header.isLocked)
        _ = try packs.commit(&draft, header, as: path, replacing: found, isSureOfName: true, level, of: open, &hold)
      }
      return .done(header.fileByteCount)
    }
  }

  /// Never inlined, because the optimizer of Swift 6.3 fails if a noncopyable value is inspected and then borrowed.
  @inline(never)
  private static func reasonToStay(_ found: borrowing FoundRecord?, isPacked: Bool) throws -> Move? {
    switch found {
    case nil: return .gone
    case let found?:
      guard (found.packed != nil) == isPacked else { return .gone }
      switch found.content {
      case .sound: return nil
      case .expired: return .expired
      case .damaged: return .damaged
      case .unreadable(let error): throw error
      }
    }
  }

  @inline(never)
  private static func header(of found: borrowing FoundRecord?) -> RecordHeader? {
    switch found {
    case nil: nil
    case let found?: found.header
    }
  }

  /// Returns the payload and extension of the record's file, or `nil` if they do not match the header.
  private func body(of header: RecordHeader) throws -> [UInt8]? {
    guard case .regular(let file, _) = try records.open(path, in: open, for: .read) else { return nil }
    let body = try file.bytes(in: RecordHeader.byteCount..<Int(header.fileByteCount))
    guard body.count == Int(header.fileByteCount) - RecordHeader.byteCount,
      header.payloadChecksum
        == CRC32.checksum(of: unsafe body.span.bytes.extracting(first: Int(header.payloadSize)))
    else { return nil }
    return body
  }
}
