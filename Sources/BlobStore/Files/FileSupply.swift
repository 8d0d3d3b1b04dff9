internal import BlobRecord
internal import Locks
internal import Logging
internal import Posix
internal import SystemPackage

/// Supplies files for new records, and disposes of the files of removed ones, through the recycling bin if possible.
///
/// A failure of the bin only costs speed, because files are then created and unlinked as without a bin.
struct FileSupply {
  let core: StoreCore

  private var configuration: BlobStore.Configuration { core.configuration }

  /// Returns the recycling bin with its limit and control file, or `nil` if nothing is recycled.
  private func recyclingBin(
    of open: OpenRoot, makesIt: Bool
  ) -> (bin: RecyclingBin, limit: RecyclingLimit, control: ControlFile)? {
    // If the control file is not open yet, the store is about to open it and reports any error.
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

  /// Returns a draft for a record: a file of the recycling bin if one of that size exists, otherwise a new file.
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

  /// Takes a file from the recycling bin that a record may overwrite, or returns `nil` if a new file must be created.
  ///
  /// The header needs a digest, because checksums must distinguish the record from the bytes that a power failure or a
  /// late reader may find in the file. A record that must be on the medium gets a new file, so locked records and
  /// durable stores do not recycle. Neither does a record with an extension, because the dead record's extension may
  /// survive a power failure, and its checksum would still match.
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

  /// Reserves space in the recycling bin for the file of a displaced record, or returns `nil` if it must be unlinked.
  ///
  /// A power failure may restore a file's old name, which then refers to overwritten bytes. Files are therefore
  /// unlinked if the record was locked, its removal must be durable or its header cannot be trusted, if they have a
  /// second name, such as a backup's, or if they belong to another user, because this process may not lease them.
  func roomInBin(
    for found: borrowing FoundRecord, _ level: BlobStore.Durability.Level, of open: OpenRoot
  ) -> ReservedRoom? {
    guard level == .none, found.file?.owner == open.ownership.ownerOfNewFiles, let file = DisplacedFile(found),
      let (bin, limit, control) = recyclingBin(of: open, makesIt: true), bin.reserve(file, limit, control)
    else { return nil }
    return ReservedRoom(bin: bin, control: control, file: file)
  }

  /// Recycles or unlinks a record's file while the key is held. Returns `false` if the file was missing.
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

  /// Disables the bin after a file was overwritten in it but could not be renamed out of it.
  func refuseBin(_ error: any Error) throws {
    try core.root.opened()?.recyclingBin(makesIt: false)?.refuse()
    configuration.logger.debug("no recycling: \(BlobStoreError(error, operation: "recycle", key: nil))")
  }

  /// Notes that a file could not be moved to the recycling bin.
  func noteFailure(_ error: FileError, of open: OpenRoot) {
    if error.errno == .noSuchFileOrDirectory { open.forgetRecyclingBin() }
    // Some file systems do not allow such long names. A bin that cannot be opened is not used, and needs no refusal.
    if error.errno == .fileNameTooLong { try? open.recyclingBin(makesIt: false)?.refuse() }
    LockOrder.outside {
      configuration.logger.debug("not recycled: \(BlobStoreError(error, operation: "recycle", key: nil))")
    }
  }

  /// Empties the recycling bin because the volume is full, and returns whether that freed space.
  func makesRoomByEmptyingBin() -> Bool {
    do {
      return try emptyBin().removed.files > 0
    } catch {
      // The store reports the lack of space that it encountered.
      configuration.logger.debug("not emptied: \(BlobStoreError(error, operation: "recycle", key: nil))")
      return false
    }
  }

  /// Unlinks the recycled files that are older than an age in nanoseconds or exceed a limit, or all if `age` is `nil`.
  func emptyBin(
    olderThan age: Int64? = nil, to limit: RecyclingLimit? = nil, dryRun: Bool = false
  ) throws -> (removed: BlobStore.RemovalReport, left: BlobStore.RemovalReport) {
    // This also applies if this store does not recycle, because another program may have done so.
    guard let open = try core.root.opened(), let bin = try open.recyclingBin(makesIt: false) else {
      return (BlobStore.RemovalReport(), BlobStore.RemovalReport())
    }
    return try bin.empty(olderThan: age, to: limit, dryRun: dryRun, of: open.ownership, core.countersFile(of: open))
  }
}

extension RecordHeader {
  /// The size of the record's file in bytes, including the extension.
  var fileByteCount: Int64 {
    Int64(Self.byteCount).saturatingAdding(Int64(clamping: payloadSize)).saturatingAdding(Int64(extensionEnd ?? 0))
  }
}
