internal import Logging
internal import Posix
internal import SystemPackage

// A shared file is whole before it has its name.
extension SharedFile {
  /// Makes the file of a format, whole before it has its name.
  ///
  /// - Returns: false if another process was faster.
  static func make(_ format: Format, in open: OpenRoot, names: TemporaryNames) throws -> Bool {
    var temporary = try draft(format, in: open, names: names)
    return try temporary.commitOrLink(as: format.name)
  }

  /// Makes an empty file, where there is no room for more: its locks are all it has, until it is replaced.
  ///
  /// - Throws: where there is no room for the name of a file either.
  static func makeEmpty(_ format: Format, in open: OpenRoot, names: TemporaryNames) throws {
    var temporary = try FileDraft(
      in: OpenSubdirectory(open.directory.reopened()), of: open.ownership, names: names, as: .control)
    _ = try temporary.commitOrLink(as: format.name)
  }

  /// Puts a new file in the place of one that is damaged.
  ///
  /// Each change under way holds a byte of the damaged file. So all its bytes are taken first, by a description of its
  /// own, which keeps out the threads of this process too. Sessions from before the damage have shared locks on some
  /// of them, and those are no obstacle.
  ///
  /// - Parameter voids: ends what the file's memory binds, and says whether nothing is held by it any more.
  /// - Returns: false if a change is under way: try again. True also if the damaged file is gone.
  static func replaceDamaged(
    _ format: Format, in open: OpenRoot, names: TemporaryNames, _ logger: Logger,
    voids: (borrowing OpenFile, Stat) throws -> Bool
  ) throws -> Bool {
    guard case .regular(let file, _) = try open.directory.openFile(format.name, for: .readWrite) else { return true }
    guard try file.tryLock(bytes: format.lockedBytes) else { return false }
    guard try format.sharedBytes.isEmpty || file.tryLock(bytes: format.sharedBytes, isShared: true) else {
      return false
    }
    // Looked at again, now that no change can come between.
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

  /// Puts a new file under the name, in the place of the file that has it.
  static func replace(_ format: Format, in open: OpenRoot, names: TemporaryNames) throws {
    var temporary = try draft(format, in: open, names: names)
    try temporary.replace(format.name)
  }

  private static func draft(_ format: Format, in open: OpenRoot, names: TemporaryNames) throws -> FileDraft {
    try draft(format, in: OpenSubdirectory(open.directory.reopened()), open.ownership, names: names)
  }

  /// A file of a format that is whole, and has a temporary name.
  static func draft(
    _ format: Format, in subdirectory: OpenSubdirectory, _ ownership: FileOwnership, names: TemporaryNames
  ) throws -> FileDraft {
    let temporary = try FileDraft(in: subdirectory, of: ownership, names: names, as: .control)
    try temporary.file.allocate(byteCount: Int64(format.byteCount))
    // Bytes that are allocated and not written read as zeros, and cost no write.
    let words = format.firstWords()
    try temporary.file.write(unsafe words.span.bytes, at: 0)
    return temporary
  }
}
