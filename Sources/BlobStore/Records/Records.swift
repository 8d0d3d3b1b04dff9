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
        return try lookup.file(name, files, in: open, mode)
      }
      // Before the index: an odd generation read later may belong to a change that the first lookup has missed.
      let generation = packs.control.generation(of: name.digest)
      if let reading = try lookup.packed(name, packs, mode) { return reading }
      let reading = try lookup.file(name, files, in: open, mode)
      if packs.mayHold(name) {
        guard mode.mayBlock else { throw CachedLookupFailure.notCached }
        // The index entry may belong to another name with the same tag.
        if let reading = try lookup.packed(name, packs, mode) { return reading }
      }
      guard case .absent = reading, lookupsLeft > 0 else { return reading }
      if packs.control.generation(of: name.digest) == generation { return reading }
    }
  }

  /// Returns the packs without a system call. Throws `notCached` if they must be searched for.
  private func knownPacks(of open: OpenRoot) throws -> PackRecords? {
    switch open.openedControlFile.map(core.packHolder.known) {
    case nil, .some(.none): return nil
    case .open(let packs): return PackRecords(packs, of: core, in: open)
    case .unknown: throw CachedLookupFailure.notCached
    }
  }

  /// Looks up a record in either engine, without a lock unless the key is held.
  func find(
    _ name: RecordPath, in directory: borrowing Directory, of open: OpenRoot, by judge: RecordJudge,
    readsExtension: Bool = true
  ) -> Finding {
    do {
      if let packs = try packs(of: open) {
        switch try packs.find(name, in: directory, of: open, by: judge, readsExtension: readsExtension) {
        case .record(let found): return .record(found)
        default: break
        }
      }
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

  /// Returns a walk over all entries of the directory, in both engines.
  func walk(
    _ open: OpenRoot, by layout: RecordLayout, fileNamePrefix: String = "", from start: WalkPosition? = nil
  ) throws -> RecordWalk {
    let scope = WalkScope(
      layout: layout, defaultExpiration: core.defaultExpiration, now: core.configuration.now(),
      fileNamePrefix: fileNamePrefix, start: start)
    return try RecordWalk(scope, in: open, files, try packs(of: open))
  }

  /// Publishes a file, which supersedes a record in either engine, as `FileRecords.commit` does.
  func commit(
    _ draft: inout FileDraft, _ header: RecordHeader, as name: RecordPath, replacing found: borrowing FoundRecord?,
    isSureOfName: Bool, _ level: BlobStore.Durability.Level, of open: OpenRoot, _ hold: inout KeyHold
  ) throws -> Bool {
    guard let address = FoundRecord.packAddress(of: found), var packs = try packs(of: open) else {
      try synchronizePacks(of: open, level)
      return try files.commit(
        &draft, header, as: name, replacing: found, isSureOfName: isSureOfName, level, of: open, &hold)
    }
    try removeFileBeneath(name, of: open)
    hold.beginPayloadChange(level)
    hold.announce(.old, StripeIntent(.toFile, at: address))
    do {
      _ = try files.commit(
        &draft, header, as: name, replacing: found, isSureOfName: isSureOfName, level, of: open, &hold)
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

  /// Changes the header of a live record with a closure, and keeps its payload.
  func rewriteHeader(
    of name: RecordPath, in open: OpenRoot, at now: UnixTime, _ level: BlobStore.Durability.Level, copiesLinked: Bool,
    _ hold: inout KeyHold, _ change: (inout RecordHeader) throws -> HeaderChange
  ) throws -> RewrittenRecord {
    if var packs = try packs(of: open) {
      if let rewritten = try packs.rewriteHeader(
        of: name, in: open, at: now, level, copiesLinked: copiesLinked, &hold, change)
      {
        return rewritten
      }
      // If the record is still packed, it does not fit into a pack with the new header.
      try moveToFile(name, in: open, &hold)
    }
    let rewritten = try files.rewriteHeader(of: name, in: open, at: now, level, copiesLinked: copiesLinked, &hold) {
      let decision = try change(&$0)
      if case .changed = decision { try synchronizePacks(of: open, level) }
      return decision
    }
    return rewritten ?? .settled(.notFound)
  }

  /// Changes the extension of a live record with a closure, and keeps its payload.
  func rewriteExtension(
    of name: RecordPath, in open: OpenRoot, at now: UnixTime, _ hold: inout KeyHold,
    _ change: (inout RecordExtension) -> Void
  ) throws -> BlobStore.Outcome {
    if var packs = try packs(of: open) {
      if let outcome = try packs.changeExtension(of: name, now, &hold, change) { return outcome }
      try moveToFile(name, in: open, &hold)
    }
    return try files.rewriteExtension(of: name, in: open, at: now, &hold) {
      try synchronizePacks(of: open, $0)
    } _: {
      change(&$0)
    }
  }

  /// Removes a record from the engine that contains it, as `RecordEngine.remove` does.
  func remove(
    _ found: borrowing FoundRecord, _ level: BlobStore.Durability.Level, recycling: Bool, erasing: Bool = false,
    in directory: borrowing Directory, of open: OpenRoot, _ hold: inout KeyHold
  ) throws -> Bool {
    if found.packAddress != nil, var packs = try packs(of: open) {
      return try packs.remove(
        found, level, recycling: recycling, erasing: erasing, in: directory, of: open, &hold)
    }
    try synchronizePacks(of: open, level)
    return try files.remove(found, level, recycling: recycling, erasing: erasing, in: directory, of: open, &hold)
  }

  /// Syncs the packs before a durable change of a file: a packed record that the file has replaced without durability
  /// must not reappear and supersede it.
  private func synchronizePacks(of open: @autoclosure () -> OpenRoot?, _ level: BlobStore.Durability.Level) throws {
    guard level == .full, let open = open() else { return }
    try packs(of: open)?.packs.files.synchronize()
  }
}
