internal import BlobRecord
internal import Posix
internal import SystemPackage

/// The engine for records in separate files. The order of its system calls keeps each record complete.
struct FileRecords {
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
  /// Publishes a draft while the key's generation is odd. Without a record to replace, it takes the name only if it
  /// is free, and returns `false` if it is not or the file system cannot check that.
  func commit(
    _ draft: inout FileDraft, as name: RecordPath, replacing found: borrowing FoundRecord?, isSureOfName: Bool,
    _ level: BlobStore.Durability.Level, of open: OpenRoot, _ hold: inout KeyHold
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

  /// Writes a changed header into a record, or returns `true` and replaces the record with a copy if its file has a
  /// second name. The copy is synchronized as `level` demands, but its directory is not.
  func rewriteHeader(
    of name: RecordPath, in file: borrowing OpenFile, _ status: Stat, from before: RecordHeader,
    to header: RecordHeader, _ level: BlobStore.Durability.Level, _ hold: inout KeyHold
  ) throws -> Bool {
    hold.willChange(level)
    let isCopied = status.linkCount > 1
    let old = RecordSize(bytes: status.size, isLocked: before.isLocked)
    let new = RecordSize(bytes: status.size, isLocked: header.isLocked)
    // A header change is never refused because of the size limit.
    _ = hold.countAhead(from: old, to: new, within: nil)
    do {
      if isCopied {
        try copy(file, as: name, with: header, nil, level)
      } else {
        try hold.loweringMarks(of: name, from: before, to: header) {
          try header.withEncodedBytes { bytes throws(FileError) in try file.write(bytes, at: 0) }
        }
      }
    } catch {
      hold.endCount(from: old, to: new, isInPlace: false)
      throw error
    }
    hold.endCount(from: old, to: new, isInPlace: true)
    return isCopied
  }

  /// Writes an extension after the payload, next to the current one, and then the header that refers to it.
  ///
  /// A record without an extension is replaced with a copy, because its file must not be longer than its header
  /// states. So is a file with a second name. The copy is synchronized as `level` demands, but its directory is not.
  ///
  /// - Returns: A Boolean value that indicates whether the record was copied.
  func rewriteExtension(
    of name: RecordPath, in file: borrowing OpenFile, _ status: Stat, from before: RecordHeader,
    _ old: RecordExtension?, to new: RecordExtension, _ level: BlobStore.Durability.Level, _ hold: inout KeyHold
  ) throws -> Bool {
    hold.willChange(level)
    let bytes = new.encoded
    var header = before
    let oldEnd = Int(before.extensionEnd ?? 0)
    let hasRoomBefore = oldEnd - (old?.byteCount ?? 0) >= bytes.count
    let start = hasRoomBefore ? 0 : oldEnd
    header.extensionEnd = UInt32(start + bytes.count)
    let tail = Tail(bytes: bytes, offset: Int64(RecordHeader.byteCount) + Int64(before.payloadSize) + Int64(start))
    let isCopied = status.linkCount > 1 || before.extensionEnd == nil
    // This is counted before the file grows, so that the counters are never too low.
    hold.count(
      from: RecordSize(bytes: status.size, isLocked: before.isLocked),
      to: RecordSize(bytes: max(status.size, tail.end), isLocked: header.isLocked))
    if isCopied {
      try copy(file, as: name, with: header, tail, level)
    } else {
      if tail.end > status.size {
        try hold.endingMarks(of: name) { try file.write(unsafe bytes.span.bytes, at: tail.offset) }
      } else {
        try file.write(unsafe bytes.span.bytes, at: tail.offset)
      }
      try file.synchronize(by: level)
      try header.withEncodedBytes { head throws(FileError) in try file.write(head, at: 0) }
    }
    return isCopied
  }

  private struct Tail {
    let bytes: [UInt8]
    let offset: Int64
    var end: Int64 { offset + Int64(bytes.count) }
  }

  /// Replaces a record whose file has a second name, such as a `cp -al` backup's, with a copy that has another
  /// header. The header of the backup must not change.
  private func copy(
    _ file: borrowing OpenFile, as name: RecordPath, with header: RecordHeader, _ tail: Tail?,
    _ level: BlobStore.Durability.Level
  ) throws {
    // The key is held during the copy, so others must not wait for a record that is too large for any load.
    guard header.payloadSize <= core.configuration.limits.payload else {
      throw core.tooLarge(header, file.location.path)
    }
    let open = try core.root.openedOrMade()
    let subdirectory = OpenSubdirectory(try open.openOrMakeSubdirectory(name.subdirectory))
    var draft = try FileDraft(in: subdirectory, of: open.ownership, names: core.temporaryNames)
    try header.withEncodedBytes { bytes throws(FileError) in try draft.file.write(bytes, at: 0) }
    let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: StoreCore.pieceByteCount, alignment: 16)
    defer { unsafe buffer.deallocate() }
    var offset = Int64(RecordHeader.byteCount)
    while true {
      let count = try unsafe file.read(into: buffer, at: offset)
      if count == 0 { break }
      try draft.file.write(unsafe RawSpan(_unsafeBytes: buffer[..<count]), at: offset)
      offset += Int64(count)
    }
    if let tail { try draft.file.write(unsafe tail.bytes.span.bytes, at: tail.offset) }
    try draft.synchronize(level)
    try draft.replace(name.fileName)
  }

  /// Removes the given record if it still exists.
  func remove(
    _ found: borrowing FoundRecord, _ level: BlobStore.Durability.Level, recycling: Bool,
    in directory: borrowing Directory,
    of open: OpenRoot, _ hold: inout KeyHold
  ) throws -> Bool {
    hold.beginPayloadChange(level)
    guard try supply.retire(found, level, recycling: recycling, in: directory, of: open) else { return false }
    hold.count(from: found.size, to: nil)
    return true
  }
}

enum HeaderChange {
  case changed
  case unchanged(BlobStore.Outcome)
}
