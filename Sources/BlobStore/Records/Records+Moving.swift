internal import BlobRecord
internal import Posix

// The way of a packed record to a file of its own.
extension Records {
  /// Gives a packed record a file of its own; nothing if it is not packed.
  func moveToFile(_ name: RecordPath, in open: OpenRoot, _ hold: inout KeyHold) throws {
    guard var packs = try packs(of: open) else { return }
    guard let found = try packs.find(name, by: RecordJudge()), let address = found.packAddress,
      let bytes = try packs.asFile(name)
    else { return }
    let level = core.configuration.durability.level(concernsLock: found.isLocked)
    try removeFileBeneath(name, of: open, hold)
    hold.willMakeFile()
    try makeFile(of: bytes, as: name, level, over: address, of: &packs, in: open, &hold)
    _ = try packs.remove(name, at: address, level, as: .toFile, &hold)
  }

  /// Puts a copy of a packed record into a file of its own, and announces that this one counts.
  private func makeFile(
    of bytes: [UInt8], as name: RecordPath, _ level: BlobStore.Durability.Level, over address: UInt64,
    of packs: inout PackRecords, in open: OpenRoot, _ hold: inout KeyHold
  ) throws {
    var attempts = DraftAttempts(mayRecycle: false, canWriteAgain: true)
    while true {
      var kind: FileDraft.Kind?
      do {
        let subdirectory = OpenSubdirectory(try open.openOrMakeSubdirectory(name.subdirectory))
        var draft = try draft(of: bytes, in: subdirectory, of: open)
        kind = draft.kind
        try draft.synchronize(level)
        hold.announce(.old, StripeIntent(.toFile, at: address))
        do {
          try draft.replace(name.fileName)
          if level > .none { try synchronizeEntry(of: name, in: subdirectory.directory, of: open) }
        } catch {
          // The file may have its name all the same. Which record counts is not left to the next change.
          try packs.finish(&hold)
          throw error
        }
        return
      } catch {
        // A collection removes subdirectories that are empty, as this one may be until the file is in it.
        guard case .lookAgain = attempts.step(after: error, of: kind, refusesUnnamed: false) else { throw error }
      }
    }
  }

  /// Unlinks a file that a power cut has left beneath a packed record, before another one is announced to take the record's
  /// place. Whoever finishes that would take the old file for it.
  func removeFileBeneath(_ name: RecordPath, of open: OpenRoot, _ hold: borrowing KeyHold) throws {
    guard !hold.hasNoFiles else { return }
    _ = try core.lookInSubdirectory(of: name, open) { try $0.unlink(name.fileName) ? true : nil }
  }

  /// Puts the name of a file on the medium, before the packed record that it replaces is marked as dead there.
  func synchronizeEntry(
    of name: RecordPath, in directory: borrowing Directory, of open: OpenRoot
  ) throws(FileError) {
    try directory.synchronize()
    if !name.subdirectory.isEmpty { try open.directory.synchronize() }
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
