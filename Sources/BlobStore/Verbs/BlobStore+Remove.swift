public import BlobRecord
internal import Posix
internal import SystemPackage

extension BlobStore {
  /// Removes a key's record: live, expired, locked or damaged.
  ///
  /// - Parameters:
  ///   - key: the key of the record.
  ///   - purging: whether its bytes must be gone at once. Then the file is unlinked instead of recycled, and so are all
  ///     files in the recycling bin, which may be earlier blobs of the key. The medium may still have the bytes: no
  ///     file system overwrites what it frees. A packed record is overwritten; earlier ones of its key lie in packs until
  ///     their room is used anew.
  /// - Returns: `done`; `notFound` if there was none.
  /// - Throws: `invalidKey`, `fileSystem`. When it throws for a sync, the record is gone, but the removal may not be on
  ///   the medium.
  @discardableResult
  public func remove(_ key: BlobKey, purging: Bool = false) throws(BlobStoreError) -> Outcome {
    let outcome = try remove(key, erasing: purging)
    // Earlier blobs of the key may lie there.
    if purging { try emptyRecyclingBin() }
    return outcome
  }

  /// Removes a key's record.
  ///
  /// - Parameter erasing: as `purging`, but that the recycling bin stays.
  package func remove(_ key: BlobKey, erasing: Bool) throws(BlobStoreError) -> Outcome {
    try withErrorContext("remove", key) { try core.remove(key, recycling: !erasing) }
  }

  /// Removes a key's record if a condition holds.
  ///
  /// - Returns: nil if there is a record for which it does not hold.
  package func remove(_ key: BlobKey, if condition: StoreCondition) throws(BlobStoreError) -> Outcome? {
    try withErrorContext("remove", key) {
      do {
        return try core.remove(key, recycling: true, if: condition)
      } catch is ConditionFailed {
        return nil
      }
    }
  }

  /// Unlinks everything in the recycling bin, where the files of dead records wait to be overwritten.
  ///
  /// - Returns: what was unlinked.
  /// - Complexity: two system calls a file.
  @discardableResult
  public func emptyRecyclingBin() throws(BlobStoreError) -> RemovalReport {
    try withErrorContext("emptyRecyclingBin") { try core.supply.emptyBin().removed }
  }

  /// - Throws: `invalidKey` for an empty prefix, which a mistake makes easily: `removeAll` removes everything.
  package static func checkRemovable(prefix: String) throws(BlobStoreError) {
    guard prefix.isEmpty else { return }
    throw BlobStoreError(
      .invalidKey, "the prefix is empty, which every key begins with; `removeAll` removes all records",
      operation: "remove")
  }

  /// Removes several records; one that fails does not keep the others from it.
  public func remove(_ keys: some Sequence<BlobKey>) -> [KeyResult] { remove(keys, erasing: false) }

  /// - Parameter erasing: as `purging`, but that the recycling bin stays.
  package func remove(_ keys: some Sequence<BlobKey>, erasing: Bool) -> [KeyResult] {
    results(for: keys) { key throws(BlobStoreError) in try remove(key, erasing: erasing) }
  }

  /// Removes the records of many keys so that their bytes are gone at once, as `remove(_:purging:)` does. The recycling bin is
  /// emptied only once.
  ///
  /// - Throws: what keeps the bin from being emptied, once all are removed.
  public func purge(_ keys: some Sequence<BlobKey>) throws(BlobStoreError) -> [KeyResult] {
    let results = remove(keys, erasing: true)
    try emptyRecyclingBin()
    return results
  }

  /// Removes all records whose keys begin with a prefix, at any age and with any locks.
  ///
  /// Records stored during the removal may stay.
  ///
  /// - Parameter prefix: what the keys begin with, byte for byte.
  /// - Throws: `invalidKey` for an empty prefix, and under the `sha256` naming, which tells no prefixes. An error that
  ///   keeps a record from being removed ends the removal.
  /// - Complexity: one header read for each record that begins with the first two characters of the prefix.
  @discardableResult
  public func remove(prefix: String) throws(BlobStoreError) -> RemovalReport {
    try withErrorContext("remove") {
      try Self.checkRemovable(prefix: prefix)
      var report = RemovalReport()
      for entry in try records(prefix: prefix) {
        if let error = entry.accessError { throw error }
        // A file whose name is no key's has no key with that prefix.
        guard let key = entry.key, try core.remove(key, recycling: true) == .done else { continue }
        report.files += 1
        report.bytes.saturatingAdd(entry.fileSize)
      }
      return report
    }
  }

  /// Removes records at any age.
  ///
  /// A wipe that is stopped leaves the rest, and says so.
  ///
  /// - Throws: `notACache` for `.all` where nothing shows that the directory is a cache; what keeps a file from being
  ///   removed, once all others are.
  @discardableResult
  public func removeAll(
    _ scope: RemovalScope, _ options: RemovalOptions = RemovalOptions()
  ) throws(BlobStoreError) -> RemovalReport {
    try withErrorContext("removeAll") {
      if scope == .all { try core.requireCache() }
      guard let open = try core.root.opened() else { return RemovalReport() }
      var wipe = Wipe(core, in: open, scope, options)
      defer { options.progress?(wipe.progress) }
      try wipe.run()
      return wipe.progress.removed
    }
  }

}

extension StoreCore {
  fileprivate func remove(
    _ key: BlobKey, recycling: Bool, if condition: StoreCondition? = nil
  ) throws -> BlobStore.Outcome {
    let name = try path(for: key)
    guard let open = try root.opened() else { return .notFound }
    let path = open.placed(name)
    if try removePacked(path, of: open, erasing: !recycling, if: condition) { return .done }
    var mustTell = true
    let outcome = try lookInSubdirectory(of: path, open) { directory throws -> BlobStore.Outcome? in
      mustTell = false
      let level = try remove(path, in: directory, of: open, recycling: recycling, if: condition)
      guard let level else { return nil }
      if level == .full { try directory.synchronize() }
      return .done
    }
    if let outcome { return outcome }
    // Without a control file, no production for the directory is under way.
    if mustTell, try controlFiles.controlFile(of: open, makesIt: false) != nil {
      var hold = try hold(path.digest)
      hold.noteChange()
    }
    return .notFound
  }

  /// - Returns: false if the key has no record in a pack.
  private func removePacked(
    _ path: RecordPath, of open: OpenRoot, erasing: Bool, if condition: StoreCondition?
  ) throws -> Bool {
    guard let packs = try records.packs(of: open) else { return false }
    packs.packs.prefetch(forChangeOf: path.digest)
    var transaction = KeyTransaction(path, in: open, records, try hold(path.digest))
    guard let found = try records.findPacked(path, of: open, by: judge(for: condition)) else { return false }
    _ = try transaction.remove(found, recycling: false, erasing: erasing, in: open.directory, if: condition)
    return true
  }

  /// - Returns: what the removal was to be on the medium by; nil if there was no record.
  private func remove(
    _ path: RecordPath, in directory: borrowing Directory, of open: OpenRoot, recycling: Bool,
    if condition: StoreCondition?
  ) throws -> BlobStore.Durability.Level? {
    var transaction = KeyTransaction(path, in: open, records, try hold(path.digest))
    guard let found = try recordToRemove(at: path, in: directory, of: open, by: judge(for: condition)) else {
      // A producer may be at it, and must learn that it was removed.
      transaction.hold.noteChange()
      return nil
    }
    return try transaction.remove(found, recycling: recycling, in: directory, if: condition)
  }

  /// Judges by age only where a condition asks for that.
  private func judge(for condition: StoreCondition?) -> RecordJudge {
    condition == nil ? RecordJudge() : judge(at: configuration.now())
  }
}
