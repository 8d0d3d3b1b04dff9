internal import BlobRecord
internal import Logging
internal import Posix
internal import Synchronization
internal import SystemPackage

/// Opens the control file of a root, and creates or replaces it if a change requires that.
struct ControlFileOpener: Sendable {
  let names: TemporaryNames
  let logger: Logger
  /// The hint that the first change writes, without the arrangement, or `nil` if hints are disabled.
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

  func found(in open: OpenRoot) throws -> ControlFile? { try open.controlFile(logger) }

  /// Returns the control file, or `nil` if it is missing and is not created, or if the volume is full.
  ///
  /// - Parameter makesIt: A Boolean value that indicates whether to create a missing file and replace a damaged one.
  func controlFile(of open: OpenRoot, makesIt: Bool) throws -> ControlFile? {
    let control = try openedControlFile(of: open, makesIt: makesIt)
    if open.arrangement == .adaptive { try control?.updatePlaces(in: open.directory) }
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
      // A process with read access could hold the directory's lock indefinitely, so it is not used. The new file is
      // linked only if its name is free, and a damaged file is replaced with all of its bytes locked.
      return try newControlFile(of: open, replacing: found)
    }
    // Excludes changes that hold this lock because they found no control file.
    let directory = try open.directory.reopened()
    guard try directory.tryLock() else { return found }
    return try newControlFile(of: open, replacing: found)
  }

  /// Creates a control file, or returns `found` if the volume is full or a change is in progress.
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
        // No record can be stored in the meantime, because each change needs the control file or the directory's lock.
        let format = ControlFile.format(
          countersAreKnown: !open.mayContainRecords(), isAdaptive: open.arrangement == .adaptive)
        _ = try SharedFile.make(format, in: open, names: names)
      }
    } catch let error as FileError where error.isLackOfRoom {
      logger.debug("no control file: \(BlobStoreError(error, operation: "make", key: nil))")
      guard found == nil, open.ownership.isOpenToReaders else { return found }
      do {
        try SharedFile.makeEmpty(ControlFile.format, in: open, names: names)
      } catch let error as FileError where error.isLackOfRoom {
        // The volume has no space even for a directory entry, so the directory's own lock has to serve.
        return nil
      }
    }
    return try open.controlFile(logger)
  }
}

extension ControlFile {
  /// Invalidates the stripe words of a damaged control file, so that it can be replaced.
  ///
  /// A process that mapped the file earlier may be in the middle of a change. This method clears the magic number and
  /// then reads the words, whereas a change exchanges a word and then checks the number, so one observes the other.
  ///
  /// System calls: `pwrite(2)`, `pread(2)`; `fcntl(2)` for each word that contains a session's token.
  ///
  /// - Returns: `false` if a living process holds a stripe by its word, in which case the caller retries.
  static func void(_ file: borrowing OpenFile, _ status: Stat) throws -> Bool {
    // Earlier versions had no words. If the file was truncated, no process can access the words behind its end.
    guard status.size > Int64(ControlLayout.sessionsOffset) else { return true }
    try file.write(unsafe [UInt64(0)].span.bytes, at: Int64(ControlLayout.magicOffset))
    atomicMemoryFence(ordering: .sequentiallyConsistent)
    // Reads with a system call, because a read of the mapping raises a signal if the file is truncated.
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
