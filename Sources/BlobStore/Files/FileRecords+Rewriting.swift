internal import BlobRecord
internal import Posix
internal import SystemPackage

/// A rewritten header or extension in a file that may need a sync after the key is released.
enum RewrittenRecord: ~Copyable {
  /// Nothing is left to sync. If `isLeftLinked`, the header was not changed because the record has another hard link.
  case settled(BlobStore.Outcome, isLeftLinked: Bool = false)
  case inPlace(OpenFile, entry: RecordDirectory?)
  /// The record has another hard link, so it was copied. The copy is synced, but its directory is not.
  case copied(entry: RecordDirectory?)

  /// Syncs the change. If `syncsEntry`, the level `full` also syncs the directory entry, which may be new.
  consuming func synchronize(
    _ level: BlobStore.Durability.Level, syncsEntry: Bool
  ) throws -> BlobStore.Outcome {
    switch consume self {
    case .settled(let outcome, _): return outcome
    case .inPlace(let file, let entry):
      try file.synchronize(by: level)
      if syncsEntry { try entry?.synchronize() }
    case .copied(let entry): try entry?.synchronize()
    }
    return .done
  }
}

struct RecordDirectory: ~Copyable {
  /// `nil` if the root no longer exists; the subdirectory is `nil` too then.
  private let open: OpenRoot?
  private let subdirectory: Directory?

  init(of path: RecordPath, _ root: CacheRoot) throws {
    let opened = try root.opened()
    subdirectory = try path.subdirectory.isEmpty ? nil : opened?.openSubdirectory(path.subdirectory)
    open = opened
  }

  borrowing func synchronize() throws {
    try subdirectory?.synchronize()
    try open?.directory.synchronize()
  }
}

// Changes of a record's header or extension in a file, which preserve its payload.
extension FileRecords {
  func rewriteHeader(
    of name: RecordPath, in open: OpenRoot, at now: UnixTime, _ level: BlobStore.Durability.Level, copiesLinked: Bool,
    _ hold: inout KeyHold, _ change: (inout RecordHeader) throws -> HeaderChange
  ) throws -> RewrittenRecord? {
    guard case .regular(let file, let status) = try self.open(name, in: open, for: .readWrite) else { return nil }
    let before: RecordHeader
    switch try file.judgeHeader(core.judge(at: now), RecordFacts(fileSize: status.size, nameDigest: name.digest)) {
    case .sound(let header): before = header
    case .expired: return .settled(.notFound)
    case .broken(let error, _): throw DamagedRecord(error: try file.settled(error), path: file.location.path)
    }
    var header = before
    if case .unchanged(let outcome) = try change(&header) { return .settled(outcome) }
    guard copiesLinked || status.linkCount <= 1 else { return .settled(.done, isLeftLinked: true) }
    // The directory is opened first, because after the change of the header only the sync may fail.
    let entry = level == .full ? try RecordDirectory(of: name, core.root) : nil
    let wasCopied = try rewriteHeader(of: name, in: file, status, from: before, to: header, level, &hold)
    return wasCopied ? .copied(entry: entry) : .inPlace(file, entry: entry)
  }

  /// Changes the extension of a live record with a closure, and keeps its payload.
  ///
  /// - Parameter willChange: A closure that is called with the level before anything is changed.
  func rewriteExtension(
    of name: RecordPath, in open: OpenRoot, at now: UnixTime, _ hold: inout KeyHold,
    willChange: (BlobStore.Durability.Level) throws -> Void, _ change: (inout RecordExtension) -> Void
  ) throws -> BlobStore.Outcome {
    guard case .regular(let file, let status) = try self.open(name, in: open, for: .readWrite) else { return .notFound }
    let (verdict, kept) = try judgeWithExtension(file, status, at: name, now: now)
    let header: RecordHeader
    switch verdict {
    case .sound(let sound): header = sound
    case .expired: return .notFound
    case .broken(let error, _): throw DamagedRecord(error: try file.settled(error), path: file.location.path)
    }
    var new = kept ?? RecordExtension()
    change(&new)
    guard new != kept ?? RecordExtension() else { return .done }
    let level = core.configuration.durability.level(concernsLock: header.isLocked)
    let entry = level == .full ? try RecordDirectory(of: name, core.root) : nil
    try willChange(level)
    // Memory tiers must discard their copy of the record.
    hold.beginPayloadChange(level)
    let wasCopied = try rewriteExtension(of: name, in: file, status, from: header, kept, to: new, level, &hold)
    if wasCopied { try entry?.synchronize() } else { try file.synchronize(by: level) }
    return .done
  }

  /// Writes a changed header into a record, or returns `true` and replaces the record with a copy if its file has a
  /// second name. The copy is synchronized as `level` demands, but its directory is not.
  private func rewriteHeader(
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
  private func rewriteExtension(
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
}
