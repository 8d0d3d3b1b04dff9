internal import BlobRecord
internal import Logging
internal import Posix
internal import Synchronization
internal import SystemPackage

/// Finds the control file of a root. For changes, it makes, mends or replaces it.
struct ControlFileOpener: Sendable {
  let names: TemporaryNames
  let logger: Logger
  /// The hint that the first change leaves there, but for the arrangement; nil where it leaves none.
  private let hint: DirectoryHint?

  init(names: TemporaryNames, _ configuration: BlobStore.Configuration, defaultExpiration: Int64) {
    self.names = names
    logger = configuration.logger
    hint =
      configuration.access.leavesHint
      ? DirectoryHint(
        defaultExpiration: defaultExpiration, sizeLimit: configuration.limits.size,
        layout: RecordLayout(naming: configuration.layout.naming))
      : nil
  }

  /// The control file as it is; nil if it is missing.
  func found(in open: OpenRoot) throws -> ControlFile? { try open.controlFile(logger) }

  /// The control file. With `makesIt`, for a change: a missing one is made, and a damaged one replaced.
  ///
  /// - Returns: nil if it is missing, and is not made or finds no room.
  func controlFile(of open: OpenRoot, makesIt: Bool) throws -> ControlFile? {
    let control = try openedControlFile(of: open, makesIt: makesIt)
    if makesIt, let control {
      control.file.shutReadersOut(logger)
      if var hint {
        hint.layout.arrangement = open.arrangement
        control.leaveHint(hint)
      }
    }
    return control
  }

  private func openedControlFile(of open: OpenRoot, makesIt: Bool) throws -> ControlFile? {
    let found = try open.controlFile(logger)
    if let found, !found.file.isDamaged || !makesIt { return found }
    guard makesIt else { return nil }
    if open.ownership.isOpenToReaders {
      // A process that may only read could hold the directory's lock without end, so nothing may need that lock. The
      // new file takes its name only if that is free. A process that replaces a damaged one holds all of its bytes.
      return try newControlFile(of: open, replacing: found)
    }
    // Keeps off changes that are made under this lock for want of a control file.
    let directory = try open.directory.reopened()
    guard try directory.tryLock() else { return found }
    return try newControlFile(of: open, replacing: found)
  }

  /// The new control file, in the place of a damaged or a missing one.
  ///
  /// - Returns: the damaged one, or nil, if there is no room for another or a change is under way.
  private func newControlFile(of open: OpenRoot, replacing found: ControlFile?) throws -> ControlFile? {
    do {
      if let found {
        let isReplaced = try SharedFile.replaceDamaged(
          ControlFile.format, in: open, names: names, logger, voids: ControlFile.void)
        guard isReplaced else { return found }
        open.forget(found)
      } else if let control = try open.controlFile(logger) {
        return control
      } else {
        _ = try SharedFile.make(ControlFile.format, in: open, names: names)
      }
    } catch let error as FileError where error.isLackOfRoom {
      logger.debug("no control file: \(BlobStoreError(error, operation: "make", key: nil))")
      guard found == nil, open.ownership.isOpenToReaders else { return found }
      do {
        try SharedFile.makeEmpty(ControlFile.format, in: open, names: names)
      } catch let error as FileError where error.isLackOfRoom {
        // Not even a name: the directory's own lock is all there is.
        return nil
      }
    }
    return try open.controlFile(logger)
  }
}

extension ControlFile {
  /// Ends what the words of a damaged control file bind, so that it can be replaced.
  ///
  /// A process that had it mapped before the damage may be in the middle of a change. So the magic goes first, which each
  /// process looks at once it has exchanged a word; then the words are looked at. Of the two, one sees the other.
  ///
  /// System calls: `pwrite(2)`, `pread(2)`; `fcntl(2)` for each word that has a session's token.
  ///
  /// - Returns: false if a living process holds a stripe by its word: try again.
  static func void(_ file: borrowing OpenFile, _ status: Stat) throws -> Bool {
    // An earlier version had no words. In a file that was cut, no process can reach the words behind its end.
    guard status.size > Int64(ControlLayout.sessionsOffset) else { return true }
    try file.write(unsafe [UInt64(0)].span.bytes, at: Int64(ControlLayout.magicOffset))
    atomicMemoryFence(ordering: .sequentiallyConsistent)
    // By a call: others may cut the file, and then a read of a mapping would end this process.
    var words = [UInt64](repeating: 0, count: (ControlLayout.byteCount - ControlLayout.sessionsOffset) / 8)
    try unsafe words.withUnsafeMutableBytes { bytes in
      _ = try unsafe file.read(into: bytes, at: Int64(ControlLayout.sessionsOffset))
    }
    func word(at offset: Int) -> UInt64 { UInt64(littleEndian: words[(offset - ControlLayout.sessionsOffset) / 8]) }
    for stripe in 0..<ControlLayout.stripeCount {
      let holder = word(at: ControlLayout.stripeOffset(stripe))
      let number = ControlLayout.sessionNumber(of: holder)
      guard holder != 0, word(at: ControlLayout.sessionTokenOffset(number)) == holder else { continue }
      if try file.areLockedElsewhere(bytes: ControlLayout.sessionByte(number)) { return false }
    }
    return true
  }
}
