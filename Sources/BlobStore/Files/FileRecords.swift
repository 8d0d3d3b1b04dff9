internal import BlobRecord
internal import Posix
internal import SystemPackage

/// The engine for records in separate files. The order of its system calls keeps each record complete.
struct FileRecords: RecordEngine {
  let core: StoreCore

  var supply: FileSupply { FileSupply(core: core) }
}

// MARK: - Finding

extension FileRecords {
  func find(
    _ name: RecordPath, in directory: borrowing Directory, of open: OpenRoot, by judge: RecordJudge,
    readsExtension: Bool
  ) -> Finding {
    Finding(name, in: directory, of: open, by: judge, readsExtension: readsExtension)
  }

  /// Opens the file at a record's path if it belongs to the cache. Throws `DamagedRecord` if others may write to it.
  func open(_ name: RecordPath, in open: OpenRoot, for access: FileAccess) throws -> OpenedFile {
    guard try open.trustsSubdirectory(name.subdirectory) else { return .notRegular }
    switch try open.openPassingOverForeign(name, for: access) {
    case .regular(let file, let status):
      guard open.ownership.owns(status) else { return .notRegular }
      guard !open.ownership.owners.expose(status) else {
        throw DamagedRecord(error: .writableByOthers, path: file.location.path)
      }
      return .regular(file, status)
    case .absent: return .absent
    case .notRegular: return .notRegular
    }
  }
}

// MARK: - Changing

extension FileRecords {
  /// Syncs a draft, as far as the level requires it, before the key is held. After a failure the draft is discarded
  /// and never synced again.
  func prepare(_ draft: inout FileDraft, _ level: BlobStore.Durability.Level) throws { try draft.makeDurable(level) }

  /// Publishes a draft, which is already counted, while the key's generation is odd.
  ///
  /// - Parameter found: The replaced record, or `nil` to publish the draft only if its name is free.
  /// - Returns: `false` if the name is taken, or the file system cannot determine that it is free.
  /// - Throws: `Published` if the draft was published despite the error.
  func commit(
    _ draft: inout FileDraft, _: RecordHeader, as name: RecordPath, replacing found: borrowing FoundRecord?,
    isSureOfName: Bool, _ level: BlobStore.Durability.Level, of open: OpenRoot, _ hold: inout KeyHold
  ) throws -> Bool {
    hold.beginPayloadChange(level)
    switch found {
    case let found? where found.packAddress != nil:
      // The path of a packed record has no file, unless another program has created one.
      try draft.replace(name.fileName)
    case let found?:
      if let room = supply.roomInBin(for: found, level, of: open) {
        if let failure = try draft.exchange(with: name.fileName, into: room) { supply.noteFailure(failure, of: open) }
      } else {
        try draft.replace(name.fileName)
      }
    case nil: return try isSureOfName ? draft.commitNew(as: name.fileName) : draft.commit(as: name.fileName) == true
    }
    return true
  }

  /// Writes the final header of a stream, which was published before it was complete.
  func complete(
    _ draft: borrowing FileDraft, as name: RecordPath, from stream: RecordHeader, to header: RecordHeader,
    _ level: BlobStore.Durability.Level, _ hold: inout KeyHold
  ) throws {
    hold.beginPayloadChange(level)
    try hold.loweringMarks(of: name, from: stream, to: header) {
      try header.withEncodedBytes { bytes throws(FileError) in try draft.file.write(bytes, at: 0) }
    }
  }

  /// Removes a record that was published and counted under the same hold.
  func withdraw(
    _ name: RecordPath, _ size: RecordSize, _ level: BlobStore.Durability.Level, in directory: borrowing Directory,
    _ hold: inout KeyHold
  ) throws {
    hold.beginPayloadChange(level)
    if try directory.unlink(name.fileName) { hold.count(from: size, to: nil) }
  }

  func remove(
    _ found: borrowing FoundRecord, _ level: BlobStore.Durability.Level, recycling: Bool, erasing _: Bool,
    in directory: borrowing Directory, of open: OpenRoot, _ hold: inout KeyHold
  ) throws -> Bool {
    hold.beginPayloadChange(level)
    guard try supply.retire(found, level, recycling: recycling, in: directory, of: open) else { return false }
    hold.count(from: found.size, to: nil)
    return true
  }
}
