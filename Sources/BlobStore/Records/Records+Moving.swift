internal import BlobRecord
internal import Posix

// The way of a packed record to a file of its own.
extension Records {
  /// Gives a packed record a file of its own; nothing if it is not packed.
  func moveToFile(_ name: RecordPath, in open: OpenRoot, _ hold: inout KeyHold) throws {
    let found = try findPacked(name, of: open, by: RecordJudge())
    guard let size = Predecessor(found)?.size, let bytes = try packs(of: open)?.asFile(name) else { return }
    let level = core.configuration.durability.level(concernsLock: size.isLocked)
    var attempts = DraftAttempts(mayRecycle: false, canWriteAgain: true)
    while true {
      var kind: DraftAttempts.Kind?
      do {
        let subdirectory = OpenSubdirectory(try open.openOrMakeSubdirectory(name.subdirectory))
        var draft = try draft(of: bytes, in: subdirectory, of: open)
        kind = draft.kind
        try draft.makeDurable(level)
        _ = try commit(&draft, as: name, replacing: found, isSureOfName: true, level, of: open, &hold)
        return
      } catch {
        // A collection removes subdirectories that are empty, as this one may be until the file is in it.
        guard case .lookAgain = attempts.step(after: error, of: kind, refusesUnnamed: false) else {
          throw (error as? Published)?.cause ?? error
        }
      }
    }
  }

  /// Unlinks a file that a power cut has left beneath a packed record, before another one is announced to take the record's
  /// place. Whoever finishes that would take the old file for it.
  func removeFileBeneath(_ name: RecordPath, of open: OpenRoot, _ hold: borrowing KeyHold) throws {
    guard !hold.hasNoFiles else { return }
    _ = try core.lookInSubdirectory(of: name, open) { try $0.unlink(name.fileName) ? true : nil }
  }

  private func draft(of bytes: [UInt8], in subdirectory: OpenSubdirectory, of open: OpenRoot) throws -> FileDraft {
    let draft = try FileDraft(in: subdirectory, of: open.ownership, names: core.temporaryNames)
    try draft.file.write(unsafe bytes.span.bytes, at: 0)
    return draft
  }

  /// Puts a copy of a packed record into a directory, as a file, and removes the record.
  ///
  /// A record whose header is damaged is copied as it lies in its pack.
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
