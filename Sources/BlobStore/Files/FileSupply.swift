internal import BlobRecord
internal import Locks
internal import Logging
internal import Posix
internal import SystemPackage

/// Where files for records come from, and where files that have lost their records go.
///
/// It is the only door to the recycling bin. A failure of the bin costs only speed: a file is made or unlinked as if
/// there were no bin.
struct FileSupply {
  let core: StoreCore

  private var configuration: BlobStore.Configuration { core.configuration }

  /// The recycling bin and what it needs; nil where nothing is recycled.
  private func recyclingBin(
    of open: OpenRoot, makesIt: Bool
  ) -> (bin: RecyclingBin, limit: RecyclingLimit, control: ControlFile)? {
    // A store that has not opened the control file yet is about to, and reports what keeps it from that.
    guard let recyclingLimit = core.recyclingLimit, let control = open.openedControlFile, control.isMapped else {
      return nil
    }
    do {
      guard let bin = try open.recyclingBin(makesIt: makesIt), bin.isUsable else { return nil }
      return (bin, recyclingLimit, control)
    } catch {
      configuration.logger.debug("no recycling: \(BlobStoreError(error, operation: "recycle", key: nil))")
      return nil
    }
  }

  /// A file to write a record to: one of the recycling bin if there is one of that size, else a new one.
  ///
  /// - Parameter attempts: which ways are open.
  func draft(
    for header: RecordHeader, at path: RecordPath, _ attempts: DraftAttempts, in subdirectory: OpenSubdirectory,
    of open: OpenRoot
  ) throws -> FileDraft {
    if attempts.mayRecycle,
      let recycled = recycledFile(for: header, at: path, byteCount: header.fileByteCount, of: open)
    {
      return FileDraft(recycled, in: subdirectory, names: core.temporaryNames)
    }
    if attempts.mayBeUnnamed,
      let file = try subdirectory.directory.createUnnamedFile(permissions: open.ownership.permissions(of: .record))
    {
      return try FileDraft(unnamed: file, in: subdirectory, of: open.ownership, names: core.temporaryNames)
    }
    return try FileDraft(in: subdirectory, of: open.ownership, names: core.temporaryNames)
  }

  /// A file to overwrite with a record.
  ///
  /// Checksums must tell the record from what a power cut or a late reader may find in the file, so its header needs a
  /// digest. A record that must be on the medium gets a new file: one with a lock, and each where stores are durable. So does
  /// one with an extension: a power cut may leave that of the dead record, whose checksum is as good.
  ///
  /// - Parameter byteCount: of the record, header included.
  /// - Returns: nil if the bin has no file for it; then a new one must be made.
  private func recycledFile(
    for header: RecordHeader, at path: RecordPath, byteCount: Int64, of open: OpenRoot
  ) -> RecycledFile? {
    guard header.keyDigest != nil, header.extensionEnd == nil, !header.isLocked,
      configuration.durability.level(concernsLock: false) == .none,
      let (bin, _, control) = recyclingBin(of: open, makesIt: false)
    else { return nil }
    do {
      return try bin.take(for: path, byteCount: byteCount, of: open.ownership, control)
    } catch {
      configuration.logger.debug("not recycled: \(BlobStoreError(error, operation: "recycle", key: nil))")
      return nil
    }
  }

  /// Room in the recycling bin for the file of a record that is replaced or removed, if it may be overwritten later.
  ///
  /// A power cut may bring back a file's old name, which then leads to the overwritten bytes. So some files are
  /// unlinked instead:
  /// - of records whose removal must last, and of locked ones;
  /// - with a second name, such as a backup's;
  /// - whose header cannot be believed;
  /// - of another user, which this process may not lease.
  ///
  /// - Parameter level: of the operation that displaces it.
  func roomInBin(
    for found: borrowing FoundRecord, _ level: BlobStore.Durability.Level, of open: OpenRoot
  ) -> ReservedRoom? {
    guard level == .none, found.file?.owner == open.ownership.ownerOfNewFiles, let file = DisplacedFile(found),
      let (bin, limit, control) = recyclingBin(of: open, makesIt: true), bin.reserve(file, limit, control)
    else { return nil }
    return ReservedRoom(bin: bin, control: control, file: file)
  }

  /// Takes a record's file away, under its key's hold: it goes into the recycling bin, or is unlinked.
  ///
  /// - Parameter recycling: whether it may go into the bin.
  /// - Returns: false if there was none.
  func retire(
    _ found: borrowing FoundRecord, _ level: BlobStore.Durability.Level, recycling: Bool,
    in directory: borrowing Directory,
    of open: OpenRoot
  ) throws -> Bool {
    if recycling, let room = roomInBin(for: found, level, of: open) {
      do throws(FileError) {
        try room.put(found.name.fileName, in: directory)
        return true
      } catch {
        noteFailure(error, of: open)
      }
    }
    return try directory.unlink(found.name.fileName)
  }

  /// A file could be overwritten in the recycling bin, but could not leave it.
  func refuseBin(_ error: any Error) throws {
    try core.root.opened()?.recyclingBin(makesIt: false)?.refuse()
    configuration.logger.debug("no recycling: \(BlobStoreError(error, operation: "recycle", key: nil))")
  }

  /// Something did not find its way into the recycling bin.
  func noteFailure(_ error: FileError, of open: OpenRoot) {
    // The bin may have been removed.
    if error.errno == .noSuchFileOrDirectory { open.forgetRecyclingBin() }
    // Some file systems take no names as long as those in the bin. A bin that cannot be opened here needs no refusal: nothing
    // goes into it.
    if error.errno == .fileNameTooLong { try? open.recyclingBin(makesIt: false)?.refuse() }
    LockOrder.outside {
      configuration.logger.debug("not recycled: \(BlobStoreError(error, operation: "recycle", key: nil))")
    }
  }

  /// Empties the recycling bin for a store that has found the volume full.
  ///
  /// - Returns: whether that made room.
  func makesRoomByEmptyingBin() -> Bool {
    do {
      return try emptyBin().removed.files > 0
    } catch {
      // The store has failed for want of room, and says so.
      configuration.logger.debug("not emptied: \(BlobStoreError(error, operation: "recycle", key: nil))")
      return false
    }
  }

  /// Unlinks the files in the recycling bin.
  ///
  /// - Parameters:
  ///   - age: nanoseconds since they came in; nil for all.
  ///   - limit: what may be left.
  func emptyBin(
    olderThan age: Int64? = nil, to limit: RecyclingLimit? = nil, dryRun: Bool = false
  ) throws -> (removed: BlobStore.RemovalReport, left: BlobStore.RemovalReport) {
    // Even where nothing is recycled: another program may have done so.
    guard let open = try core.root.opened(), let bin = try open.recyclingBin(makesIt: false) else {
      return (BlobStore.RemovalReport(), BlobStore.RemovalReport())
    }
    return try bin.empty(olderThan: age, to: limit, dryRun: dryRun, of: open.ownership, core.countersFile(of: open))
  }
}

extension StoreCore {
  var supply: FileSupply { FileSupply(core: self) }
}

extension RecordHeader {
  /// The bytes of a record's file, as it is stored: up to the end of its extension, if it has one.
  var fileByteCount: Int64 {
    Int64(Self.byteCount).saturatingAdding(Int64(clamping: payloadSize)).saturatingAdding(Int64(extensionEnd ?? 0))
  }
}
