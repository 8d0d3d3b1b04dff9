internal import BlobRecord
internal import Posix

// The removal of records and temporary files, by the same rules for the removal of a key, a wipe and a collection.
extension Records {
  /// Returns the record at a path, whether sound or damaged, or `nil` if none exists.
  func recordToRemove(
    at path: RecordPath, in directory: borrowing Directory, of open: OpenRoot, by judge: RecordJudge
  ) throws -> FoundRecord? {
    guard case .record(let found) = find(path, in: directory, of: open, by: judge) else { return nil }
    // The removal is unconditional, so an unreadable file is removed too, but the file must exist.
    if case .unreadable = found.content, found.file == nil, try directory.status(of: path.fileName) == nil {
      return nil
    }
    return found
  }

  /// Removes a record that a walk has returned, if `isDue` still accepts it under its stripe. It does not wait.
  private func removeRecord(
    at path: RecordPath, in directory: borrowing Directory, of open: OpenRoot, recycling: Bool,
    if isDue: (RecordEntry) -> Bool
  ) throws -> RecordRemoval {
    guard let hold = try holdIfAvailable(path.digest, makesControlFile: true) else { return .busy }
    var transaction = KeyTransaction(path, in: open, self, hold)
    let now = core.configuration.now()
    guard case .record(let found) = find(path, in: directory, of: open, by: core.judge(at: now)) else {
      return .stays
    }
    return try remove(
      found, core.entry(of: found, at: now), in: directory, recycling: recycling, &transaction, if: isDue)
  }

  /// Removes a packed record like `removeRecord`. Returns `nil` if the record is not packed.
  private func removePackedRecord(
    at path: RecordPath, of open: OpenRoot, if isDue: (RecordEntry) -> Bool
  ) throws -> RecordRemoval? {
    guard try mayBePacked(path, of: open) else { return nil }
    guard let hold = try holdIfAvailable(path.digest, makesControlFile: true) else { return .busy }
    var transaction = try transaction(of: path, in: open, hold)
    let now = core.configuration.now()
    guard let found = try findPacked(transaction.path, of: open, by: core.judge(at: now)) else { return nil }
    return try remove(
      found, core.entry(of: found, at: now), in: open.directory, recycling: false, &transaction, if: isDue)
  }

  private func remove(
    _ found: borrowing FoundRecord, _ current: RecordEntry, in directory: borrowing Directory, recycling: Bool,
    _ transaction: inout KeyTransaction, if isDue: (RecordEntry) -> Bool
  ) throws -> RecordRemoval {
    guard isDue(current) else {
      // If the record is now unreadable, the result of `isDue` is not reliable.
      if let error = current.accessError { throw error }
      return .stays
    }
    var level = core.configuration.durability.level(concernsLock: found.isLocked)
    // The caller removes many records and syncs the packs once at the end.
    if found.packAddress != nil { level = min(level, .barrier) }
    guard try transaction.remove(found, level, recycling: recycling, in: directory) else { return .stays }
    return .removed(current)
  }

  /// Removes a record that a walk has just returned.
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

  /// Removes a record that a walk returned some time ago, if it is due.
  func removeRecord(
    at path: RecordPath, _ subdirectories: LastSubdirectory, recycling: Bool, if isDue: (RecordEntry) -> Bool
  ) throws -> RecordRemoval {
    if let removal = try removePackedRecord(at: path, of: subdirectories.open, if: isDue) { return removal }
    return try subdirectories.with(path.subdirectory) { directory in
      try removeRecord(at: path, in: directory, of: subdirectories.open, recycling: recycling, if: isDue)
    } ?? .stays
  }

  /// Removes a temporary file that is not locked, because a writer that still exists would hold the file's lock.
  /// Returns the file's size, or `nil` if the file has a writer, does not belong to the cache, or no longer exists.
  func removeTemporaryFile(
    _ name: String, in directory: borrowing Directory, of open: OpenRoot, dryRun: Bool = false
  ) throws -> Int64? {
    guard case .regular(let file, let status) = try directory.openFile(name, for: .read), open.ownership.owns(status),
      try file.tryLock()
    else { return nil }
    guard !dryRun else { return status.size }
    return try directory.unlink(name) ? status.size : nil
  }

  /// Removes a covered file as `KeyTransaction` does. Returns `false` also if its stripe is busy.
  func removeCoveredFile(
    at path: RecordPath, in directory: borrowing Directory, of open: OpenRoot
  ) throws -> Bool {
    guard let hold = try holdIfAvailable(path.digest, makesControlFile: true) else { return false }
    return try KeyTransaction(path, in: open, self, hold).removeCoveredFile(in: directory)
  }
}
