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
}
