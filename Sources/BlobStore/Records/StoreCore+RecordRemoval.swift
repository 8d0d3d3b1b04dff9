internal import BlobRecord
internal import Posix

// Records, and temporary files, are removed under the same rules by a removal of a key, a wipe and a collection.
extension StoreCore {
  /// The record at a path, sound or not; nil if the path leads to no record.
  func recordToRemove(
    at path: RecordPath, in directory: borrowing Directory, of open: OpenRoot, by judge: RecordJudge
  ) throws -> FoundRecord? {
    guard case .record(let found) = records.find(path, in: directory, of: open, by: judge) else { return nil }
    // That a file cannot be read is no reason to keep it: the removal is unconditional. But there must be one.
    if case .unreadable = found.content, found.file == nil, try directory.status(of: path.fileName) == nil {
      return nil
    }
    return found
  }

  /// Removes a record that a walk has met, if it still is what `isDue` wants when no other change can be made. Waits for
  /// nothing.
  ///
  /// - Parameter recycling: whether its file may go into the recycling bin.
  private func removeRecord(
    at path: RecordPath, in directory: borrowing Directory, of open: OpenRoot, recycling: Bool,
    if isDue: (RecordEntry) -> Bool
  ) throws -> RecordRemoval {
    guard let hold = try holdIfAvailable(path.digest, makesControlFile: true) else { return .busy }
    var transaction = KeyTransaction(path, in: open, records, hold)
    let now = configuration.now()
    guard case .record(let found) = records.find(path, in: directory, of: open, by: judge(at: now)) else {
      return .stays
    }
    return try remove(found, entry(of: found, at: now), in: directory, recycling: recycling, &transaction, if: isDue)
  }

  /// Removes a record that has been met, as `removeRecord`, if it lies in a pack.
  ///
  /// - Returns: nil if it does not.
  private func removePackedRecord(
    at path: RecordPath, of open: OpenRoot, if isDue: (RecordEntry) -> Bool
  ) throws -> RecordRemoval? {
    guard try records.mayBePacked(path, of: open) else { return nil }
    guard let hold = try holdIfAvailable(path.digest, makesControlFile: true) else { return .busy }
    var transaction = KeyTransaction(path, in: open, records, hold)
    let now = configuration.now()
    guard let found = try records.findPacked(path, of: open, by: judge(at: now)) else { return nil }
    return try remove(
      found, entry(of: found, at: now), in: open.directory, recycling: false, &transaction, if: isDue)
  }

  private func remove(
    _ found: borrowing FoundRecord, _ current: RecordEntry, in directory: borrowing Directory, recycling: Bool,
    _ transaction: inout KeyTransaction, if isDue: (RecordEntry) -> Bool
  ) throws -> RecordRemoval {
    guard isDue(current) else {
      // Unreadable now: whether it is due is not known, and that must not pass for an answer.
      if let error = current.accessError { throw error }
      return .stays
    }
    var level = configuration.durability.level(concernsLock: found.isLocked)
    // Who removes many records syncs the packs once, in the end.
    if found.packAddress != nil { level = min(level, .barrier) }
    guard try transaction.remove(found, level, recycling: recycling, in: directory) else { return .stays }
    return .removed(current)
  }

  /// Removes a record that a walk has met just now.
  func removeRecord(
    at path: RecordPath, metBy walk: RecordWalk, of open: OpenRoot, recycling: Bool, if isDue: (RecordEntry) -> Bool
  ) throws -> RecordRemoval {
    guard !walk.isInPacks else {
      return try removeRecord(at: path, LastSubdirectory(open), recycling: recycling, if: isDue)
    }
    return try walk.withCurrentDirectory {
      try removeRecord(at: path, in: $0, of: open, recycling: recycling, if: isDue)
    }
  }

  /// Removes a record that was met a while ago, if it is due.
  func removeRecord(
    at path: RecordPath, _ subdirectories: LastSubdirectory, recycling: Bool, if isDue: (RecordEntry) -> Bool
  ) throws -> RecordRemoval {
    if let removal = try removePackedRecord(at: path, of: subdirectories.open, if: isDue) { return removal }
    return try subdirectories.with(path.subdirectory) { directory in
      try removeRecord(at: path, in: directory, of: subdirectories.open, recycling: recycling, if: isDue)
    } ?? .stays
  }

  /// Removes a temporary file whose writer is gone: it would hold the file's lock.
  ///
  /// - Returns: its size; nil if it has a writer, or is not the cache's, or is gone.
  func removeTemporaryFile(
    _ name: String, in directory: borrowing Directory, of open: OpenRoot, dryRun: Bool = false
  ) throws -> Int64? {
    guard case .regular(let file, let status) = try directory.openFile(name, for: .read), open.ownership.owns(status),
      try file.tryLock()
    else { return nil }
    guard !dryRun else { return status.size }
    return try directory.unlink(name) ? status.size : nil
  }

  /// Removes a file that a walk has met beside a packed record of its name. A power cut has kept it, or it could not be unlinked.
  ///
  /// - Returns: false where it stays: another change has its stripe, or the packed record is damaged, expired or gone by now.
  ///   Without that record, the file counts.
  func removeCoveredFile(
    at path: RecordPath, in directory: borrowing Directory, of open: OpenRoot
  ) throws -> Bool {
    guard let hold = try holdIfAvailable(path.digest, makesControlFile: true) else { return false }
    defer { extendLifetime(hold) }
    guard try hasSoundPackedRecord(path, of: open) else { return false }
    _ = try directory.unlink(path.fileName)
    return true
  }

  private func hasSoundPackedRecord(_ path: RecordPath, of open: OpenRoot) throws -> Bool {
    let judge = judge(at: configuration.now())
    guard let found = try records.findPacked(path, of: open, by: judge, comparesPayload: true) else { return false }
    guard case .sound = found.content else { return false }
    return true
  }
}
