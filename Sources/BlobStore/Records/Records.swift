internal import BlobRecord
internal import Posix
internal import SystemPackage

/// The records of a directory in both engines. All public operations read and change records through this type.
///
/// A key has at most one record, which changes only while the key is held; the functions require the hold as an
/// argument. `PackRecords` contains small records and is searched first. `FileRecords` contains all others.
struct Records {
  let files: FileRecords

  var core: StoreCore { files.core }

  init(_ core: StoreCore) { files = FileRecords(core: core) }

  /// Returns the packs of a directory, without a system call once they are open or known to be missing.
  func packs(of open: OpenRoot) throws -> PackRecords? {
    guard let control = try controlFile(of: open), control.isReadable,
      let packs = try core.packHolder.packs(of: open, control, makesThem: false)
    else { return nil }
    return PackRecords(packs, of: core, in: open)
  }

  /// Returns the control file, which packed records require. If packs exist, a control file that is missing or
  /// damaged, for example after a power failure, is created again.
  private func controlFile(of open: OpenRoot) throws -> ControlFile? {
    let logger = core.configuration.logger
    let found: ControlFile?
    do {
      found = try open.controlFileOfLoads(logger)
    } catch {
      // If no packs exist, all records are found without the control file.
      guard try open.mayHavePacks() else { return nil }
      throw error
    }
    guard found?.file.isDamaged ?? true, try open.mayHavePacks() else { return found }
    do {
      return try core.controlFiles.controlFile(of: open, makesIt: true)
    } catch {
      logger.debug("no packs: \(BlobStoreError(error, operation: "load", key: nil))")
      return found
    }
  }

  /// The maximum number of lookups of a missing record whose generation changes concurrently.
  private static let lookupsOfAMiss = 8

  /// Looks up a name in the packs, then among the files, without a lock unless the caller holds the key.
  ///
  /// A record may move between the engines concurrently. Therefore, a file counts only if there is still no index
  /// entry, and a missing file counts only if the key's generation has not changed. After several lookups, the last
  /// one is made under the key's stripe. If the stripe is busy, the result is accepted: it could be wrong only for a
  /// record that moves to a file and back during each lookup.
  ///
  /// - Throws: `CachedLookupFailure` if the lookup would block and must not.
  func read<Lookup: RecordLookup>(
    _ name: RecordPath, in open: OpenRoot, _ lookup: Lookup, _ mode: ReadMode
  ) throws -> Reading<Lookup.Content> {
    var lookupsLeft = mode.mayBlock ? Self.lookupsOfAMiss : 1
    while true {
      lookupsLeft -= 1
      let hold: KeyHold? =
        if lookupsLeft == 0, mode.mayBlock { try Records(core).holdIfAvailable(name.digest) } else { nil }
      defer { extendLifetime(hold) }
      guard let packs = try mode.mayBlock ? packs(of: open) : knownPacks(of: open) else {
        return try file(lookup, name, in: open, mode)
      }
      // Before the index: an odd generation read later may belong to a change that the first lookup has missed.
      let generation = packs.control.generation(of: name.digest)
      if let reading = try lookup.packed(name, packs, mode) { return reading }
      let reading = try file(lookup, name, in: open, mode)
      if packs.mayHold(name) {
        guard mode.mayBlock else { throw CachedLookupFailure.notCached }
        // The index entry may belong to another name with the same tag.
        if let reading = try lookup.packed(name, packs, mode) { return reading }
      }
      guard case .absent = reading, lookupsLeft > 0 else { return reading }
      if packs.control.generation(of: name.digest) == generation { return reading }
    }
  }

  private func file<Lookup: RecordLookup>(
    _ lookup: Lookup, _ name: RecordPath, in open: OpenRoot, _ mode: ReadMode
  ) throws -> Reading<Lookup.Content> {
    let reading = try lookup.file(name, files, in: open, mode)
    guard case .absent = reading, let other = open.otherPlace(of: name) else { return reading }
    return try lookup.file(other, files, in: open, mode)
  }

  /// Returns the packs without a system call. Throws `notCached` if they must be searched for.
  private func knownPacks(of open: OpenRoot) throws -> PackRecords? {
    switch open.openedControlFile.map(core.packHolder.known) {
    case nil, .some(.none): return nil
    case .open(let packs): return PackRecords(packs, of: core, in: open)
    case .unknown: throw CachedLookupFailure.notCached
    }
  }

  /// Looks up a record, without a lock unless the key is held.
  func find(
    _ name: RecordPath, in directory: borrowing Directory, of open: OpenRoot, by judge: RecordJudge,
    readsExtension: Bool = true
  ) -> Finding {
    do {
      if let found = try packs(of: open)?.find(name, by: judge) { return .record(found) }
    } catch {
      return .record(FoundRecord(name, unreadable: error, nil))
    }
    return files.find(name, in: directory, of: open, by: judge, readsExtension: readsExtension)
  }

  /// Returns the record that a store is about to replace, or `nil` if none exists. Throws `foreignFile` if the file
  /// does not belong to the cache and must not be replaced.
  func recordToReplace(
    at path: RecordPath, in directory: borrowing Directory, of open: OpenRoot, by judge: RecordJudge
  ) throws -> FoundRecord? {
    switch find(path, in: directory, of: open, by: judge, readsExtension: false) {
    case .absent: return nil
    case .record(let found):
      if case .unreadable(let error) = found.content { throw error }
      return found
    case .foreign(let record?):
      throw BlobStoreError(
        .foreignFile, "what lies where the record belongs is left alone: \(record.explanation)", path: record.path)
    case .foreign(nil):
      throw BlobStoreError(
        .foreignFile, "what lies where the record belongs is no file of this cache's, and is left alone",
        path: directory.path.appending(path.fileName))
    }
  }

  /// Checks whether the index may have an entry of a key, without a system call once the packs are known.
  func mayBePacked(_ name: RecordPath, of open: OpenRoot) throws -> Bool {
    try packs(of: open)?.mayHold(name) ?? false
  }

  /// Looks up a record only in the packs, without a lock.
  func findPacked(
    _ name: RecordPath, of open: OpenRoot, by judge: RecordJudge, comparesPayload: Bool = false
  ) throws -> FoundRecord? {
    try packs(of: open)?.find(name, by: judge, comparesPayload: comparesPayload)
  }

  /// Opens the file with a name if it belongs to the cache. Throws `DamagedRecord` if other users can write to it.
  func open(_ name: RecordPath, in open: OpenRoot, for access: FileAccess) throws -> OpenedFile {
    try files.open(name, in: open, for: access)
  }

  /// Returns a walk over all entries of the directory. `RecordWalk` documents the parameters.
  func walk(
    _ open: OpenRoot, by layout: RecordLayout, fileNamePrefix: String = "", from start: WalkPosition? = nil
  ) throws -> RecordWalk {
    try RecordWalk(
      open, try packs(of: open), layout: layout, defaultExpiration: files.core.defaultExpiration,
      now: files.core.configuration.now(),
      fileNamePrefix: fileNamePrefix, from: start)
  }

  /// Creates a draft without a lock. The draft's file is removed at the end of its lifetime, unless it is committed.
  func draft(
    _ header: RecordHeader, for name: RecordPath, _ attempts: DraftAttempts, in subdirectory: OpenSubdirectory,
    of open: OpenRoot
  ) throws -> FileDraft {
    try files.supply.draft(for: header, at: name, attempts, in: subdirectory, of: open)
  }

  /// Publishes a written record. Returns `false` if the name is taken, or the file system cannot determine that it is
  /// free. Throws `Published` if the record was published despite the error.
  func commit(
    _ draft: inout FileDraft, as name: RecordPath, replacing found: borrowing FoundRecord?, isSureOfName: Bool,
    _ level: BlobStore.Durability.Level, of open: OpenRoot, _ hold: inout KeyHold
  ) throws -> Bool {
    guard let address = FoundRecord.packAddress(of: found), var packs = try packs(of: open) else {
      try synchronizePacks(of: open, level)
      return try files.commit(&draft, as: name, replacing: found, isSureOfName: isSureOfName, level, of: open, &hold)
    }
    try removeFileBeneath(name, of: open)
    hold.beginPayloadChange(level)
    hold.announce(.old, StripeIntent(.toFile, at: address))
    do {
      _ = try files.commit(&draft, as: name, replacing: found, isSureOfName: isSureOfName, level, of: open, &hold)
    } catch {
      // The file may have its name despite the error. Finishing the change decides which record counts.
      try packs.finish(&hold)
      throw try packs.isCurrent(name, at: PackAddress(rawValue: address)) ? error : Published(cause: error)
    }
    // The file has its name, so it counts. If its entry remains, the next holder of the stripe removes it.
    try afterPublication {
      do {
        if level > .none { try draft.synchronizeName(at: name, of: open) }
      } catch {
        // The file is published without another sync, which could fail too.
        _ = try packs.remove(name, at: address, .none, as: .toFile, &hold)
        throw error
      }
      // Until then, loads find the packed record.
      _ = try packs.remove(name, at: address, level, as: .toFile, &hold)
    }
    return true
  }

  func complete(
    _ draft: borrowing FileDraft, as name: RecordPath, from stream: RecordHeader, to header: RecordHeader,
    _ level: BlobStore.Durability.Level, _ hold: inout KeyHold
  ) throws {
    try synchronizePacks(of: core.root.lastOpened, level)
    try files.complete(draft, as: name, from: stream, to: header, level, &hold)
  }

  func withdraw(
    _ name: RecordPath, _ size: RecordSize, _ level: BlobStore.Durability.Level, in directory: borrowing Directory,
    _ hold: inout KeyHold
  ) throws {
    try files.withdraw(name, size, level, in: directory, &hold)
  }

  /// Changes the header of a record and keeps its payload. Returns whether the record had to be copied.
  func rewriteHeader(
    of name: RecordPath, in file: borrowing OpenFile, _ status: Stat, from before: RecordHeader,
    to header: RecordHeader, _ level: BlobStore.Durability.Level, _ hold: inout KeyHold
  ) throws -> Bool {
    try synchronizePacks(of: core.root.lastOpened, level)
    return try files.rewriteHeader(of: name, in: file, status, from: before, to: header, level, &hold)
  }

  func judgeWithExtension(
    _ file: borrowing OpenFile, _ status: Stat, at name: RecordPath, now: UnixTime
  ) throws -> (verdict: RecordVerdict, extension: RecordExtension?) {
    try files.judgeWithExtension(file, status, at: name, now: now)
  }

  /// Replaces the extension of a record and keeps its payload. Returns whether the record had to be copied.
  func rewriteExtension(
    of name: RecordPath, in file: borrowing OpenFile, _ status: Stat, from before: RecordHeader,
    _ old: RecordExtension?, to new: RecordExtension, _ level: BlobStore.Durability.Level, _ hold: inout KeyHold
  ) throws -> Bool {
    try synchronizePacks(of: core.root.lastOpened, level)
    return try files.rewriteExtension(of: name, in: file, status, from: before, old, to: new, level, &hold)
  }

  /// Changes a packed record's lock count or time of use. Returns `nil` if the key has no packed record.
  func changePackedHeader(
    of name: RecordPath, in open: OpenRoot, _ now: UnixTime, _ level: BlobStore.Durability.Level,
    _ hold: inout KeyHold, _ change: (inout RecordHeader) throws -> HeaderChange
  ) throws -> BlobStore.Outcome? {
    guard var packs = try packs(of: open) else { return nil }
    if let outcome = try packs.changeHeader(of: name, now, level, &hold, change) { return outcome }
    // If the record is still packed, it does not fit into a pack with the new header.
    try moveToFile(name, in: open, &hold)
    return nil
  }

  /// Replaces a packed record's extension. Returns `nil` if the key has no packed record, or it no longer fits.
  func changePackedExtension(
    of name: RecordPath, in open: OpenRoot, _ now: UnixTime, _ hold: inout KeyHold,
    _ change: (inout RecordExtension) -> Void
  ) throws -> BlobStore.Outcome? {
    guard var packs = try packs(of: open) else { return nil }
    if let outcome = try packs.changeExtension(of: name, now, &hold, change) { return outcome }
    try moveToFile(name, in: open, &hold)
    return nil
  }

  /// Removes a record. Returns `false` if it did not exist. If `recycling`, its file may be overwritten later. If
  /// `erasing`, a packed record is overwritten immediately.
  func remove(
    _ found: borrowing FoundRecord, _ level: BlobStore.Durability.Level, recycling: Bool, erasing: Bool = false,
    in directory: borrowing Directory,
    of open: OpenRoot, _ hold: inout KeyHold
  ) throws -> Bool {
    if let address = found.packAddress, var packs = try packs(of: open) {
      let name = found.name
      // The file is unlinked first, because another program's file would be visible once the packed record is removed.
      if try core.hasFile(name, in: open) {
        _ = try core.lookUpInSubdirectory(of: name, open) { try $0.unlink(name.fileName) ? true : nil }
      }
      // After a power failure, a file that an earlier store has unlinked would be visible too.
      if level == .full { try packs.synchronizeUnlinks(of: name, level) }
      return try packs.remove(found.name, at: address, level, counting: found.size, erasing: erasing, &hold)
    }
    try synchronizePacks(of: open, level)
    return try files.remove(found, level, recycling: recycling, in: directory, of: open, &hold)
  }

  /// Syncs the packs before a durable change of a file: a packed record that the file has replaced without durability
  /// must not reappear and supersede it.
  private func synchronizePacks(of open: @autoclosure () -> OpenRoot?, _ level: BlobStore.Durability.Level) throws {
    guard level == .full, let open = open() else { return }
    try packs(of: open)?.packs.files.synchronize()
  }
}
