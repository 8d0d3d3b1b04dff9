internal import Logging
internal import Posix
internal import SystemPackage

extension SharedFile {
  /// Creates the file of a format, complete before it gets its name. Returns `false` if another process was faster.
  static func make(_ format: Format, in open: OpenRoot, names: TemporaryNames) throws -> Bool {
    var temporary = try draft(format, in: open, names: names)
    return try temporary.commitOrLink(as: format.name)
  }

  /// Creates an empty file on a full volume, which only provides its locks until it is replaced.
  static func makeEmpty(_ format: Format, in open: OpenRoot, names: TemporaryNames) throws {
    var temporary = try FileDraft(
      in: OpenSubdirectory(open.directory.reopened()), of: open.ownership, names: names, as: .control)
    _ = try temporary.commitOrLink(as: format.name)
  }

  /// Replaces a damaged file, and returns `false` if a change is in progress and the caller must try again.
  ///
  /// Each ongoing change holds a lock on a byte of the damaged file. All bytes are therefore locked first, by a
  /// separate file description, which also excludes the threads of this process. Sessions that began before the
  /// damage hold shared locks on some bytes, which do not conflict.
  ///
  /// - Parameter voids: Invalidates the locks in the file's memory, and returns whether no process holds any of them.
  static func replaceDamaged(
    _ format: Format, in open: OpenRoot, names: TemporaryNames, _ logger: Logger,
    voids: (borrowing OpenFile, Stat) throws -> Bool
  ) throws -> Bool {
    guard case .regular(let file, _) = try open.directory.openFile(format.name, for: .readWrite) else { return true }
    guard try file.tryLock(bytes: format.lockedBytes) else { return false }
    guard try format.sharedBytes.isEmpty || file.tryLock(bytes: format.sharedBytes, isShared: true) else {
      return false
    }
    // The content is checked again, because no change can intervene now.
    let status = try file.status()
    guard try format.isLinked(status, in: open.directory),
      case .damaged = try Content(of: file, status, format, open.ownership)
    else {
      return true
    }
    guard try voids(file, status) else { return false }
    var temporary = try draft(format, in: open, names: names)
    try temporary.replace(format.name)
    logger.warning("\(file.location.path): was damaged, and is replaced")
    return true
  }

  static func replace(_ format: Format, in open: OpenRoot, names: TemporaryNames) throws {
    var temporary = try draft(format, in: open, names: names)
    try temporary.replace(format.name)
  }

  private static func draft(_ format: Format, in open: OpenRoot, names: TemporaryNames) throws -> FileDraft {
    try draft(format, in: OpenSubdirectory(open.directory.reopened()), open.ownership, names: names)
  }

  /// Creates a complete file of a format under a temporary name.
  static func draft(
    _ format: Format, in subdirectory: OpenSubdirectory, _ ownership: FileOwnership, names: TemporaryNames
  ) throws -> FileDraft {
    let temporary = try FileDraft(in: subdirectory, of: ownership, names: names, as: .control)
    // Allocated bytes that were not written read as zeros, and cost no write.
    try temporary.file.allocate(byteCount: Int64(format.isSparse ? SparsePages.pageByteCount : format.byteCount))
    if format.isSparse { try temporary.file.truncate(to: Int64(format.byteCount)) }
    let words = format.firstWords()
    try temporary.file.write(unsafe words.span.bytes, at: 0)
    return temporary
  }
}
