internal import BlobRecord
internal import Posix
internal import SystemPackage

/// The records of a directory, whichever engine holds them: the only way from a verb to bytes on disk.
///
/// A key has at most one record. It changes only while its key is held, and the compiler asks for the hold. There are two
/// engines. `PackRecords` has small records, and is asked first; `FileRecords` has all others.
struct Records {
  let files: FileRecords

  var core: StoreCore { files.core }

  init(_ core: StoreCore) { files = FileRecords(core: core) }

  /// The packs of a directory; nil if it has none.
  ///
  /// - Complexity: no system call, once they are open or known to be missing.
  func packs(of open: OpenRoot) throws -> PackRecords? {
    guard let control = try controlFile(of: open), control.isReadable,
      let packs = try core.packHolder.packs(of: open, control, makesThem: false)
    else { return nil }
    return PackRecords(packs, of: core, in: open)
  }

  /// The control file, without which no record in a pack is found.
  ///
  /// One that is missing or damaged, as after a power cut, is made again where there are packs.
  private func controlFile(of open: OpenRoot) throws -> ControlFile? {
    let logger = core.configuration.logger
    let found: ControlFile?
    do {
      found = try open.controlFileOfLoads(logger)
    } catch {
      // Without packs, nothing is missed.
      guard try open.mayHavePacks(named: PackDirectory.name) else { return nil }
      throw error
    }
    guard found?.file.isDamaged ?? true, try open.mayHavePacks(named: PackDirectory.name) else { return found }
    do {
      return try core.controlFiles.controlFile(of: open, makesIt: true)
    } catch {
      logger.debug("no packs: \(BlobStoreError(error, operation: "load", key: nil))")
      return found
    }
  }

  /// How often a miss is looked up again because the key, or one that shares its generation, has changed meanwhile.
  private static let lookupsOfAMiss = 8

  /// Reads a name in the packs, then its file; without a lock, unless the key is held.
  ///
  /// A record may move between both meanwhile. So what the file says counts only if there is still no entry, and that there is no
  /// file counts only if the key's generation has not changed. After a few lookups, the last one is made under the key's stripe. If
  /// that is not free, its result is believed: only a record that moves to a file and back during each lookup could be missed.
  ///
  /// - Throws: `CachedLookFailure` where it would block and must not.
  func read<Lookup: RecordLookup>(
    _ name: RecordPath, in open: OpenRoot, _ lookup: Lookup, _ mode: ReadMode
  ) throws -> Reading<Lookup.Content> {
    var lookupsLeft = mode.mayBlock ? Self.lookupsOfAMiss : 1
    while true {
      lookupsLeft -= 1
      let hold: KeyHold? = if lookupsLeft == 0, mode.mayBlock { try core.holdIfAvailable(name.digest) } else { nil }
      defer { extendLifetime(hold) }
      guard let packs = try mode.mayBlock ? packs(of: open) : knownPacks(of: open) else {
        return try lookup.file(name, files, in: open, mode)
      }
      if let reading = try lookup.packed(name, packs, mode) { return reading }
      let generation = packs.control.generation(of: name.digest)
      let reading = try lookup.file(name, files, in: open, mode)
      if packs.mayHold(name) {
        guard mode.mayBlock else { throw CachedLookFailure.notCached }
        // An entry may be another name's, with the same tag.
        if let reading = try lookup.packed(name, packs, mode) { return reading }
      }
      guard case .absent = reading, lookupsLeft > 0 else { return reading }
      if packs.control.generation(of: name.digest) == generation { return reading }
    }
  }

  /// The packs, without a system call.
  ///
  /// - Throws: `notCached` where they have to be looked for.
  private func knownPacks(of open: OpenRoot) throws -> PackRecords? {
    switch open.openedControlFile.map(core.packHolder.known) {
    case nil, .some(.none): return nil
    case .open(let packs): return PackRecords(packs, of: core, in: open)
    case .unknown: throw CachedLookFailure.notCached
    }
  }

  /// Looks at a record's place, without a lock unless the key is held.
  ///
  /// - Parameter readsExtension: whether to read what lies behind the payload, too.
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

  /// The record that a store is about to replace.
  ///
  /// - Parameter judge: whether age matters.
  /// - Returns: nil if there is none.
  /// - Throws: `foreignFile` if the file there is not the cache's, and so must not be replaced.
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

  /// Whether a key may have a record in a pack.
  ///
  /// - Complexity: no system call, once the packs are open or known to be missing.
  func mayBePacked(_ name: RecordPath, of open: OpenRoot) throws -> Bool {
    try packs(of: open)?.mayHold(name) ?? false
  }

  /// Looks for a record in the packs alone, without a lock.
  ///
  /// - Parameter comparesPayload: whether the payload is compared with its checksum, too.
  func findPacked(
    _ name: RecordPath, of open: OpenRoot, by judge: RecordJudge, comparesPayload: Bool = false
  ) throws -> FoundRecord? {
    try packs(of: open)?.find(name, by: judge, comparesPayload: comparesPayload)
  }

  /// Opens what lies at a name, if it is a file of the cache's.
  ///
  /// - Throws: `DamagedRecord` if others may write to it.
  func open(_ name: RecordPath, in open: OpenRoot, for access: FileAccess) throws -> OpenedFile {
    try files.open(name, in: open, for: access)
  }

  /// Walks over everything that lies in the directory.
  ///
  /// - Parameters:
  ///   - layout: tells which names are records', and where.
  ///   - fileNamePrefix: with it, only records whose names begin so, and nothing else, is met.
  ///   - start: where to begin, for a walk in the order of `OrderedEntries`; nil for the order of the file system.
  func walk(
    _ open: OpenRoot, by layout: RecordLayout, fileNamePrefix: String = "", from start: WalkPosition? = nil
  ) throws -> RecordWalk {
    try RecordWalk(
      open, try packs(of: open), layout: layout, defaultExpiration: files.core.defaultExpiration,
      now: files.core.configuration.now(),
      fileNamePrefix: fileNamePrefix, from: start)
  }

  /// Makes a place to write a record to, without a lock. It vanishes in the end, unless it is committed.
  func draft(
    _ header: RecordHeader, for name: RecordPath, _ attempts: DraftAttempts, in subdirectory: OpenSubdirectory,
    of open: OpenRoot
  ) throws -> FileDraft {
    try files.supply.draft(for: header, at: name, attempts, in: subdirectory, of: open)
  }

  /// Puts a written record in its place.
  ///
  /// - Parameters:
  ///   - found: the record that it replaces; nil if none is known.
  ///   - isSureOfName: whether the name was looked at.
  /// - Returns: false if something has the name, or the file system cannot tell.
  /// - Throws: `Published` if it has its place all the same.
  func commit(
    _ draft: inout FileDraft, as name: RecordPath, replacing found: borrowing FoundRecord?, isSureOfName: Bool,
    _ level: BlobStore.Durability.Level, of open: OpenRoot, _ hold: inout KeyHold
  ) throws -> Bool {
    guard let address = FoundRecord.packAddress(of: found), var packs = try packs(of: open) else {
      hold.willMakeFile()
      try synchronizePacks(of: open, level)
      return try files.commit(&draft, as: name, replacing: found, isSureOfName: isSureOfName, level, of: open, &hold)
    }
    try removeFileBeneath(name, of: open, hold)
    hold.willMakeFile()
    hold.announce(.old, StripeIntent(.toFile, at: address))
    do {
      _ = try files.commit(&draft, as: name, replacing: found, isSureOfName: isSureOfName, level, of: open, &hold)
    } catch {
      // The file may have its name all the same. Which record counts is not left to the next change.
      try packs.finish(&hold)
      throw error
    }
    if level > .none {
      do throws(FileError) {
        try draft.synchronizeName(at: name, of: open)
      } catch {
        // The file has its name, so it is the record that counts. To say so takes no call that could fail like the last one.
        _ = try packs.remove(name, at: address, .none, as: .toFile, &hold)
        throw Published(cause: error)
      }
    }
    // Published with this: until then, loads find the packed record.
    _ = try packs.remove(name, at: address, level, as: .toFile, &hold)
    return true
  }

  /// Completes a record that has its place since before it was whole.
  func complete(
    _ draft: borrowing FileDraft, as name: RecordPath, from stream: RecordHeader, to header: RecordHeader,
    _ level: BlobStore.Durability.Level, _ hold: inout KeyHold
  ) throws {
    try synchronizePacks(of: core.root.lastOpened, level)
    try files.complete(draft, as: name, from: stream, to: header, level, &hold)
  }

  /// Writes another header into a record whose payload is not complete.
  func rewriteStream(_ draft: borrowing FileDraft, to header: RecordHeader, _: borrowing KeyHold) throws {
    try header.withEncodedBytes { bytes throws(FileError) in try draft.file.write(bytes, at: 0) }
  }

  /// Removes a record whose payload is not complete, unless it has lost its place.
  func withdrawStream(_ draft: borrowing FileDraft, at name: RecordPath, _ hold: inout KeyHold) throws {
    guard try draft.isInPlace(as: name.fileName) else { return }
    try files.withdraw(name, .stream, .none, in: draft.subdirectory.directory, &hold)
  }

  /// Removes a record that a commit has put in its place under the same hold.
  func withdraw(
    _ name: RecordPath, _ size: RecordSize, _ level: BlobStore.Durability.Level, in directory: borrowing Directory,
    _ hold: inout KeyHold
  ) throws {
    try files.withdraw(name, size, level, in: directory, &hold)
  }

  /// Changes the header of a record, whose payload stays.
  ///
  /// - Returns: whether the record had to be copied.
  func rewriteHeader(
    of name: RecordPath, in file: borrowing OpenFile, _ status: Stat, from before: RecordHeader,
    to header: RecordHeader, _ level: BlobStore.Durability.Level, _ hold: inout KeyHold
  ) throws -> Bool {
    try synchronizePacks(of: core.root.lastOpened, level)
    return try files.rewriteHeader(of: name, in: file, status, from: before, to: header, level, &hold)
  }

  /// Reads a record's header and its extension, and judges the record by them.
  func judgeWithExtension(
    _ file: borrowing OpenFile, _ status: Stat, at name: RecordPath, now: UnixTime
  ) throws -> (verdict: RecordVerdict, extension: RecordExtension?) {
    try files.judgeWithExtension(file, status, at: name, now: now)
  }

  /// Gives a record another extension. Its payload stays.
  ///
  /// - Returns: whether the record had to be copied.
  func rewriteExtension(
    of name: RecordPath, in file: borrowing OpenFile, _ status: Stat, from before: RecordHeader,
    _ old: RecordExtension?, to new: RecordExtension, _ level: BlobStore.Durability.Level, _ hold: inout KeyHold
  ) throws -> Bool {
    try synchronizePacks(of: core.root.lastOpened, level)
    return try files.rewriteExtension(of: name, in: file, status, from: before, old, to: new, level, &hold)
  }

  /// Changes the header of a packed record; the count of locks, the time of use, or both.
  ///
  /// - Returns: nil if the key has no record in a pack.
  func changePackedHeader(
    of name: RecordPath, in open: OpenRoot, _ now: UnixTime, _ level: BlobStore.Durability.Level,
    _ hold: inout KeyHold, _ change: (inout RecordHeader) throws -> HeaderChange
  ) throws -> BlobStore.Outcome? {
    guard var packs = try packs(of: open) else { return nil }
    if let outcome = try packs.changeHeader(of: name, now, level, &hold, change) { return outcome }
    // If it is packed, it finds no room in a pack with the new header.
    try moveToFile(name, in: open, &hold)
    return nil
  }

  /// Gives a packed record another extension.
  ///
  /// - Returns: nil if the key has no record in a pack, or none any more: it would not fit.
  func changePackedExtension(
    of name: RecordPath, in open: OpenRoot, _ now: UnixTime, _ hold: inout KeyHold,
    _ change: (inout RecordExtension) -> Void
  ) throws -> BlobStore.Outcome? {
    guard var packs = try packs(of: open) else { return nil }
    if let outcome = try packs.changeExtension(of: name, now, &hold, change) { return outcome }
    try moveToFile(name, in: open, &hold)
    return nil
  }

  /// Removes a record.
  ///
  /// - Parameters:
  ///   - recycling: whether its file may be overwritten later.
  ///   - erasing: whether a packed record is overwritten at once.
  /// - Returns: false if there was none.
  func remove(
    _ found: borrowing FoundRecord, _ level: BlobStore.Durability.Level, recycling: Bool, erasing: Bool = false,
    in directory: borrowing Directory,
    of open: OpenRoot, _ hold: inout KeyHold
  ) throws -> Bool {
    if let address = found.packAddress, var packs = try packs(of: open) {
      let name = found.name
      // First: what others have put there would show once the packed record is gone.
      if try core.mayHaveFile(name, in: open, hold) {
        _ = try core.lookInSubdirectory(of: name, open) { try $0.unlink(name.fileName) ? true : nil }
      }
      // So would a file that an earlier store has unlinked, after a power cut.
      if level == .full { try packs.synchronizeUnlinks(of: name, level, hold) }
      return try packs.remove(found.name, at: address, level, counting: found.size, erasing: erasing, &hold)
    }
    try synchronizePacks(of: open, level)
    return try files.remove(found, level, recycling: recycling, in: directory, of: open, &hold)
  }

  /// Before a change of a file that has to last: a packed record that the file has replaced without durability must not come
  /// back over it.
  private func synchronizePacks(of open: @autoclosure () -> OpenRoot?, _ level: BlobStore.Durability.Level) throws {
    guard level == .full, let open = open() else { return }
    try packs(of: open)?.packs.files.synchronize()
  }
}

extension StoreCore {
  var records: Records { Records(self) }
}
