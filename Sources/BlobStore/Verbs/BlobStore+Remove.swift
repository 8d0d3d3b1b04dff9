public import BlobRecord
internal import Posix
internal import SystemPackage

extension BlobStore {
  /// Removes a key's record, whether it is live, expired, locked or damaged.
  ///
  /// - Parameters:
  ///   - key: The key of the record.
  ///   - purging: A Boolean value that indicates whether the bytes are erased immediately. The file is then unlinked
  ///     instead of recycled, as are all files in the recycling bin, which may contain earlier blobs of the key. The
  ///     medium may still contain the bytes, because file systems do not overwrite freed space. A packed record is
  ///     overwritten, but earlier records of its key stay in packs until their space is reused.
  /// - Returns: `done`, or `notFound` if no record exists.
  /// - Throws: `invalidKey`, `fileSystem`. If a sync fails, the removal may not be on the medium.
  @discardableResult
  public func remove(_ key: BlobKey, purging: Bool = false) throws(BlobStoreError) -> Outcome {
    let outcome = try remove(key, erasing: purging)
    // The bin may contain earlier blobs of the key.
    if purging { try emptyRecyclingBin() }
    return outcome
  }

  /// Removes a key's record. `erasing` has the effect of `purging`, except that the recycling bin is not emptied.
  package func remove(_ key: BlobKey, erasing: Bool) throws(BlobStoreError) -> Outcome {
    try withErrorContext("remove", key) { try Records(core).remove(key, recycling: !erasing) }
  }

  /// Removes a key's record, or returns `nil` if the record exists and does not fulfill a condition.
  package func remove(_ key: BlobKey, if condition: StoreCondition) throws(BlobStoreError) -> Outcome? {
    try withErrorContext("remove", key) {
      do {
        return try Records(core).remove(key, recycling: true, if: condition)
      } catch is ConditionFailed {
        return nil
      }
    }
  }

  /// Unlinks all files in the recycling bin, where the files of dead records wait to be overwritten.
  ///
  /// - Returns: The number and size of the unlinked files.
  /// - Complexity: Two system calls for each file.
  @discardableResult
  public func emptyRecyclingBin() throws(BlobStoreError) -> RemovalReport {
    try withErrorContext("emptyRecyclingBin") { try FileSupply(core: core).emptyBin().removed }
  }

  /// Throws `invalidKey` for an empty prefix, which is an easy mistake. `removeAll` removes all records.
  package static func checkRemovable(prefix: String) throws(BlobStoreError) {
    guard prefix.isEmpty else { return }
    throw BlobStoreError(
      .invalidKey, "the prefix is empty, which every key begins with; `removeAll` removes all records",
      operation: "remove")
  }

  /// Removes several records, each of which may fail independently of the others.
  public func remove(_ keys: some Sequence<BlobKey>) -> [KeyResult] { remove(keys, erasing: false) }

  package func remove(_ keys: some Sequence<BlobKey>, erasing: Bool) -> [KeyResult] {
    results(for: keys) { key throws(BlobStoreError) in try remove(key, erasing: erasing) }
  }

  /// Removes several records as `remove(_:purging:)` does, but empties the recycling bin only once.
  ///
  /// - Throws: An error that prevented emptying the bin, after all records were removed.
  public func purge(_ keys: some Sequence<BlobKey>) throws(BlobStoreError) -> [KeyResult] {
    let results = remove(keys, erasing: true)
    try emptyRecyclingBin()
    return results
  }

  /// Removes all records whose keys begin with a prefix, at any age and with any locks.
  ///
  /// Records that are stored during the removal may remain.
  ///
  /// - Parameter prefix: The prefix of the keys, which is compared byte by byte.
  /// - Throws: `invalidKey` for an empty prefix, and under the `sha256` naming, which does not preserve prefixes. An
  ///   error that prevents the removal of a record ends the call.
  /// - Complexity: One header read for each record that begins with the first two characters of the prefix.
  @discardableResult
  public func remove(prefix: String) throws(BlobStoreError) -> RemovalReport {
    try withErrorContext("remove") {
      try Self.checkRemovable(prefix: prefix)
      var report = RemovalReport()
      for entry in try records(prefix: prefix) {
        if let error = entry.accessError { throw error }
        // A file whose name does not belong to a key cannot match the prefix.
        guard let key = entry.key, try Records(core).remove(key, recycling: true) == .done else { continue }
        report.files += 1
        report.bytes.saturatingAdd(entry.fileSize)
      }
      return report
    }
  }

  /// Removes records at any age.
  ///
  /// A removal that is stopped leaves the other records, and reports that.
  ///
  /// - Throws: `notACache` for `.all` if nothing shows that the directory is a cache. An error that prevents the
  ///   removal of a file is thrown after all others were removed.
  @discardableResult
  public func removeAll(
    _ scope: RemovalScope, _ options: RemovalOptions = RemovalOptions()
  ) throws(BlobStoreError) -> RemovalReport {
    try withErrorContext("removeAll") {
      if scope == .all { try Records(core).requireCache() }
      guard let open = try core.root.opened() else { return RemovalReport() }
      var wipe = Wipe(core, in: open, scope, options)
      defer { options.progress?(wipe.progress) }
      try wipe.run()
      return wipe.progress.removed
    }
  }

}

extension Records {
  fileprivate func remove(
    _ key: BlobKey, recycling: Bool, if condition: StoreCondition? = nil
  ) throws -> BlobStore.Outcome {
    let name = try core.path(for: key)
    guard let open = try core.root.opened() else { return .notFound }
    let path = try core.resolved(name, in: open)
    if try removePacked(path, of: open, erasing: !recycling, if: condition) { return .done }
    var mustTell = true
    let outcome = try core.lookUpInSubdirectory(of: path, open) { directory throws -> BlobStore.Outcome? in
      mustTell = false
      let level = try remove(path, in: directory, of: open, recycling: recycling, if: condition)
      guard let level else { return nil }
      if level == .full { try directory.synchronize() }
      return .done
    }
    if let outcome { return outcome }
    // Without a control file, no production for the directory is under way.
    if mustTell, try core.controlFiles.controlFile(of: open, makesIt: false) != nil {
      var transaction = KeyTransaction(path, in: open, self, try hold(path.digest))
      transaction.noteChange()
    }
    return .notFound
  }

  /// Removes a key's record from its pack, and returns `false` if the key has no packed record.
  private func removePacked(
    _ path: RecordPath, of open: OpenRoot, erasing: Bool, if condition: StoreCondition?
  ) throws -> Bool {
    guard let packs = try packs(of: open) else { return false }
    packs.packs.prefetch(forChangeOf: path.digest)
    var transaction = try transaction(of: path, in: open, try hold(path.digest))
    guard let found = try findPacked(transaction.path, of: open, by: judge(for: condition)) else { return false }
    _ = try transaction.remove(found, recycling: false, erasing: erasing, in: open.directory, if: condition)
    return true
  }

  /// Removes a key's record, and returns the durability level of the removal, or `nil` if no record exists.
  private func remove(
    _ path: RecordPath, in directory: borrowing Directory, of open: OpenRoot, recycling: Bool,
    if condition: StoreCondition?
  ) throws -> BlobStore.Durability.Level? {
    var transaction = KeyTransaction(path, in: open, self, try hold(path.digest))
    guard let found = try recordToRemove(at: path, in: directory, of: open, by: judge(for: condition)) else {
      // A producer may be at it, and must learn that it was removed.
      transaction.noteChange()
      return nil
    }
    return try transaction.remove(found, recycling: recycling, in: directory, if: condition)
  }

  /// Returns a judge that considers the age only if a condition requires it.
  private func judge(for condition: StoreCondition?) -> RecordJudge {
    condition == nil ? RecordJudge() : core.judge(at: core.configuration.now())
  }
}
