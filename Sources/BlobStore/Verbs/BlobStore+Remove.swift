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
      var progress = RemovalProgress()
      // The counters only tell how far it has come: a wipe does without.
      progress.expected = options.progress == nil ? nil : try? core.usageEstimate()?.records
      defer { options.progress?(progress) }
      try core.remove(scope, options, &progress)
      return progress.removed
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
    var hold = try hold(path.digest)
    let judge = condition == nil ? RecordJudge() : judge(at: configuration.now())
    guard let found = try records.findPacked(path, of: open, by: judge) else { return false }
    if let condition, !condition.holds(in: hold.history) || !condition.allows(found.liveHeader) {
      throw ConditionFailed()
    }
    let level = configuration.durability.level(concernsLock: found.mayBeLocked)
    _ = try records.remove(found, level, recycling: false, erasing: erasing, in: open.directory, of: open, &hold)
    return true
  }

  /// - Returns: what the removal was to be on the medium by; nil if there was no record.
  private func remove(
    _ path: RecordPath, in directory: borrowing Directory, of open: OpenRoot, recycling: Bool,
    if condition: StoreCondition?
  ) throws -> BlobStore.Durability.Level? {
    var hold = try hold(path.digest)
    let judge = condition == nil ? RecordJudge() : judge(at: configuration.now())
    guard let found = try recordToRemove(at: path, in: directory, of: open, by: judge) else {
      // A producer may be at it, and must learn that it was removed.
      hold.noteChange()
      return nil
    }
    if let condition, !condition.holds(in: hold.history) || !condition.allows(found.liveHeader) {
      throw ConditionFailed()
    }
    let level = configuration.durability.level(concernsLock: found.mayBeLocked)
    return try records.remove(found, level, recycling: recycling, in: directory, of: open, &hold) ? level : nil
  }

  fileprivate func remove(
    _ scope: BlobStore.RemovalScope, _ options: BlobStore.RemovalOptions, _ progress: inout BlobStore.RemovalProgress
  ) throws {
    var firstFailure: (any Error)?
    var mustSync = false
    guard let open = try root.opened() else { return }
    // Before anything is listed: what is published later, and was begun before, is then known to be late.
    countWipe(in: open)
    defer { countWipe(in: open) }
    guard let walk = try walk() else { return }
    walk.enters = {
      open.mendSubdirectory($0)
      return true
    }
    defer { walk.enters = nil }
    var busy = BusyRecords<RecordPath>(waiting: configuration.access.lockTimeout)
    func count(_ removed: RecordEntry) {
      progress.removed.add(bytes: removed.fileSize)
      if configuration.durability.level(concernsLock: removed.header?.isLocked ?? true) == .full { mustSync = true }
    }
    while let item = try walk.next() {
      do {
        switch item {
        case .record(let entry):
          progress.examined += 1
          if let error = entry.accessError, scope != .all { throw error }
          guard scope.includes(entry) else { break }
          let path = try entry.knownPath()
          let removal = try removeRecord(at: path, metBy: walk, of: open, recycling: false) { scope.includes($0) }
          switch removal {
          case .removed(let removed): count(removed)
          case .busy: busy.add(path)
          case .stays: break
          }
        case .temporary(let name):
          progress.examined += 1
          guard scope == .all else { break }
          let byteCount = try walk.withCurrentDirectory { try removeTemporaryFile(name, in: $0, of: open) }
          guard let byteCount else { break }
          progress.removed.add(bytes: byteCount)
        case .endOfSubdirectory(let name):
          if mustSync { try walk.withCurrentDirectory { try $0.synchronize() } }
          if scope == .all { _ = try open.directory.removeSubdirectory(name) }
          continue
        case .covered, .foreign, .foreignRecord: continue
        }
      } catch {
        firstFailure = firstFailure ?? error
      }
      if progress.examined.isMultiple(of: Int64(BlobStore.RemovalOptions.progressStep)) { options.progress?(progress) }
      if options.isStopped?() == true {
        progress.removed.wasStopped = true
        if mustSync { try walk.withCurrentDirectory { try $0.synchronize() } }
        break
      }
    }
    let subdirectories = LastSubdirectory(open)
    busy.comeBack {
      progress.removed.wasStopped = progress.removed.wasStopped || options.isStopped?() == true
      return progress.removed.wasStopped
    } _: { path in
      do {
        switch try removeRecord(at: path, subdirectories, recycling: false, if: { scope.includes($0) }) {
        case .busy: return true
        case .stays: return false
        case .removed(let removed): count(removed)
        }
        if mustSync { try subdirectories.with(path.subdirectory) { try $0.synchronize() } }
        if scope == .all, !path.subdirectory.isEmpty { _ = try open.directory.removeSubdirectory(path.subdirectory) }
      } catch {
        firstFailure = firstFailure ?? error
      }
      return false
    }
    if busy.count > 0, !progress.removed.wasStopped {
      let failure = BlobStoreError(busy: busy.count, for: configuration.access.lockTimeout, at: self.root.path)
      firstFailure = firstFailure ?? failure
    }
    if scope == .all, !progress.removed.wasStopped {
      do {
        if let removed = try quarantine()?.removeAll() {
          progress.removed.files += removed.files
          progress.removed.bytes.saturatingAdd(removed.bytes)
          firstFailure = firstFailure ?? removed.failure
        }
      } catch {
        firstFailure = firstFailure ?? error
      }
    }
    if scope == .all, !progress.removed.wasStopped {
      do {
        _ = try supply.emptyBin()
      } catch {
        firstFailure = firstFailure ?? error
      }
    }
    if mustSync {
      try open.directory.synchronize()
      try records.packs(of: open)?.packs.files.synchronize()
    }
    if let firstFailure { throw firstFailure }
  }
}

extension StoreCore {
  /// Tells productions that are under way, in any process, that their blobs must not be stored.
  private func countWipe(in open: OpenRoot) {
    // Where the file cannot be opened, no record can be removed either, which is an error. Where it is missing, no
    // production has begun.
    (try? controlFiles.controlFile(of: open, makesIt: false))?.countWipe()
  }
}

extension BlobStore.RemovalReport {
  fileprivate mutating func add(bytes byteCount: Int64) {
    files += 1
    bytes.saturatingAdd(byteCount)
  }
}

extension BlobStore.RemovalScope {
  fileprivate func includes(_ entry: RecordEntry) -> Bool {
    switch self {
    case .all: true
    case .locked: entry.state == .locked
    case .unlocked: entry.state == .live || entry.state == .expired
    }
  }
}

extension RecordEntry {
  /// The path, without which nothing can be removed.
  fileprivate func knownPath() throws -> RecordPath {
    guard let path else { throw accessError ?? BlobStoreError(.internalInconsistency, file) }
    return path
  }
}
