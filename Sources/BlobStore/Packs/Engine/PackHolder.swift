internal import BlobRecord
internal import Locks
internal import Logging
internal import Posix
internal import Synchronization

/// Finds the packs of a directory, keeps them open, and makes them or their index where they are missing.
final class PackHolder: Sendable {
  private let stripes: StripeLocks
  private let names: TemporaryNames
  private let logger: Logger
  private let timeout: Duration
  private let naming: RecordNaming
  private let leastEntryCount: Int
  private let chunkByteCount: Int
  private let isMapped: Bool
  private let opened = Lock<Packs?>(nil)
  /// Whether a thread opens or makes an index. One does at a time: those of a process share the lock of the byte.
  private let isBusy = Atomic(false)

  init(_ stripes: StripeLocks, names: TemporaryNames, _ configuration: BlobStore.Configuration) {
    self.stripes = stripes
    self.names = names
    logger = configuration.logger
    timeout = configuration.access.lockTimeout
    naming = configuration.layout.naming
    leastEntryCount = configuration.leastPackIndexEntryCount
    isMapped = configuration.packReads == .mapped
    chunkByteCount = configuration.packChunkByteCount ?? PackLayout.chunkByteCount
  }

  /// The packs of a directory, and the index in force.
  ///
  /// System calls: none, once they are open, or known to be missing. After a boot, the first process to ask makes the index
  /// anew, and the others wait for it.
  ///
  /// - Parameters:
  ///   - control: of the directory. Where its memory is not shared, there are no packs.
  ///   - makesThem: whether missing ones are made.
  /// - Returns: nil if the directory has none.
  /// - Throws: `busy` where another process makes the index for `lockTimeout`; what keeps the index from being made.
  func packs(of open: OpenRoot, _ control: ControlFile, makesThem: Bool) throws -> Packs? {
    switch known(of: control) {
    case .open(let packs): packs
    case .none where !makesThem || !control.isMapped: nil
    case .none, .unknown:
      try control.isMapped ? find(in: open, control, makesThem: makesThem) : findToRead(in: open, control)
    }
  }

  /// What this process knows of the packs of a directory.
  enum Knowledge {
    case none
    case open(Packs)
    /// It has to look.
    case unknown
  }

  /// - Complexity: no system call.
  func known(of control: ControlFile) -> Knowledge {
    guard control.isReadable else { return .none }
    let number = control.packIndexNumber
    guard number != 0 else { return control.hasNoPacks.load(ordering: .relaxed) ? .none : .unknown }
    guard let packs = opened.withLock({ $0 }), packs.control === control, packs.index.number == number else {
      return .unknown
    }
    return .open(packs)
  }

  /// Asks the processor for the bucket of a name in the index that was in force at the last look.
  func prefetch(_ digest: UInt64, _ control: ControlFile) {
    opened.withLock { packs in
      if let packs, packs.control === control { packs.index.prefetch(digest) }
    }
  }

  @inline(never)
  private func find(in open: OpenRoot, _ control: ControlFile, makesThem: Bool) throws -> Packs? {
    guard let boot = SystemBoot.identifier else {
      logger.warning("no packs: the system does not tell when it was started")
      return nil
    }
    var backoff = Backoff(timeout: timeout, longestSleep: .milliseconds(50))
    repeat {
      guard !isBusy.exchange(true, ordering: .acquiring) else { continue }
      defer { isBusy.store(false, ordering: .releasing) }
      guard let files = try files(in: open, control, makesThem: makesThem) else {
        control.hasNoPacks.store(true, ordering: .relaxed)
        return nil
      }
      control.hasNoPacks.store(false, ordering: .relaxed)
      if let index = try indexInForce(files, control, boot) { return keep(Packs(index, files, control)) }
      guard try control.file.tryLock(ControlLayout.packByte) else { continue }
      defer { control.file.unlock(ControlLayout.packByte) }
      // Another process may have made it meanwhile, or died before a larger one was in force.
      try settleGrowth(files, control)
      if let index = try indexInForce(files, control, boot) { return keep(Packs(index, files, control)) }
      // What the control file says of files may be older than a power cut.
      if try files.directory.hasPacks { control.forgetStripesWithoutFiles() }
      // No change of this boot is under way: all of them need an index.
      if try mayBeAnotherBoot(files, control, boot) { control.forgetIntents() }
      let recovery = PackRecovery(
        files: files, control: control, boot: boot, names: names, leastEntryCount: leastEntryCount)
      return keep(Packs(try recovery.run(), files, control))
    } while backoff.wait()
    throw BlobStoreError(
      .busy, "another process has been making the index of the packs for \(timeout)", path: open.directory.path)
  }

  /// The packs, for a process that may not write to them.
  ///
  /// It makes no index. So after a boot it finds nothing until a process has looked that may write.
  @inline(never)
  private func findToRead(in open: OpenRoot, _ control: ControlFile) throws -> Packs? {
    guard let boot = SystemBoot.identifier,
      let directory = try PackDirectory.open(in: open, makesIt: false, for: .read), try directory.hasPacks
    else {
      // Else each load would look.
      control.hasNoPacks.store(true, ordering: .relaxed)
      return nil
    }
    let files = packFiles(in: directory)
    var number: UInt64
    repeat {
      number = control.packIndexNumber
      if let index = try indexInForce(files, control, boot) { return keep(Packs(index, files, control)) }
      // A larger one may have come in force.
    } while control.packIndexNumber != number
    logger.debug("no packs: a process that may write to them has to make their index")
    return nil
  }

  private func packFiles(in directory: PackDirectory) -> PackFiles {
    PackFiles(directory, chunkByteCount: chunkByteCount, isMapped: isMapped, names: names, logger)
  }

  private func keep(_ packs: Packs) -> Packs {
    opened.withLock { $0 = packs }
    return packs
  }

  /// - Returns: nil if there are no packs, and none are made. The room for an index may be lacking then.
  private func files(in open: OpenRoot, _ control: ControlFile, makesThem: Bool) throws -> PackFiles? {
    if let packs = opened.withLock({ $0 }), packs.control === control,
      try packs.files.directory.isCurrent(in: open)
    {
      return packs.files
    }
    if let directory = try PackDirectory.open(in: open, makesIt: false) {
      if makesThem {
        try synchronizeName(of: directory, in: open)
      } else if try !directory.hasPacks {
        return nil
      }
      return packFiles(in: directory)
    }
    guard makesThem, let directory = try PackDirectory.open(in: open, makesIt: true) else { return nil }
    // Where earlier packs were removed, processes that share no memory may have stored files since.
    control.forgetStripesWithoutFiles()
    try synchronizeName(of: directory, in: open)
    try noteThatNoFilesAreThere(in: open, control)
    return packFiles(in: directory)
  }

  /// A record that is durable needs a directory that is: its name is on the medium before the first pack has its own.
  private func synchronizeName(of directory: PackDirectory, in open: OpenRoot) throws {
    if try !directory.hasPacks { try open.directory.synchronize() }
  }

  /// Spares stores the look for a file of the same key, in a directory that had no records before its packs.
  private func noteThatNoFilesAreThere(in open: OpenRoot, _ control: ControlFile) throws {
    // All stripes are held, so no file gets its name meanwhile. If one is not free, stores look.
    let layout = RecordLayout(naming: naming, arrangement: open.arrangement)
    _ = try stripes.whileNothingChanges(in: control) {
      var entries = try open.directory.entries()
      while try entries.advance() {
        // Names of records do not begin with a dot.
        let name = entries.entry.name
        if name.first != ".", !CacheDirectoryTag.isTag(name, in: layout) { return }
      }
      for stripe in 0..<ControlLayout.stripeCount { control.noteFiles(ofStripe: stripe, hasNone: true) }
    }
  }

  /// Whether what is announced may be from before a boot.
  ///
  /// Where a power cut has taken the index along, only a process that lives can tell. Without one, no process that announced
  /// something has had an answer, and the walk tells which records count.
  private func mayBeAnotherBoot(_ files: PackFiles, _ control: ControlFile, _ boot: SIMD2<UInt64>) throws -> Bool {
    if case .index(let index) = try PackIndex.open(in: files.directory) { return index.boot != boot }
    return try !control.hasOtherSessions()
  }

  /// - Returns: nil if the index that is in force is missing, damaged, of another boot, or not the one that the control file
  ///   names.
  private func indexInForce(_ files: PackFiles, _ control: ControlFile, _ boot: SIMD2<UInt64>) throws -> PackIndex? {
    let number = control.packIndexNumber
    guard number != 0 else { return nil }
    switch try PackIndex.open(number: number, in: files.directory) {
    case .index(let index): return index.number == number && index.boot == boot ? index : nil
    case .absent, .damaged: return nil
    case .unusable(let reason):
      throw BlobStoreError(
        .foreignFile, "the index of the packs cannot be used: \(reason)",
        path: files.directory.path.appending(PackIndex.name))
    }
  }
}

// MARK: - Removal

extension PackHolder {
  /// Removes the packs of a directory and their index if no record is stored in them.
  ///
  /// No key is held meanwhile, so no change is under way. A process that has them open finds that its index is no longer in force,
  /// and then that there are no packs. Before their names go, the marks of their dead records are on the medium: a power cut that
  /// keeps a pack must not bring back what lies in it.
  ///
  /// System calls: a sync of each pack, two calls to unlink each file, and a sync of the root.
  ///
  /// - Returns: `false` if a record is left, a change is under way, or another process makes an index.
  func removeEmptyPacks(_ packs: Packs, of open: OpenRoot) throws -> Bool {
    let (files, control) = (packs.files, packs.control)
    guard packs.index.hasNoEntries else { return false }
    try files.synchronize()
    let isRemoved =
      try withoutOtherMakers(of: files, control) {
        try stripes.whileNothingChanges(in: control) {
          guard packs.isInForce, packs.index.hasNoEntries else { return false }
          // From here on no process believes the index that it has open.
          control.setPackIndexNumber(0)
          control.forgetIntents()
          opened.withLock { $0 = nil }
          try files.removeAll()
          return try open.directory.removeSubdirectory(PackDirectory.name)
        } ?? false
      } ?? false
    if isRemoved { try open.directory.synchronize() }
    return isRemoved
  }
}

// MARK: - Growth

extension PackHolder {
  /// Runs a closure while no other thread and no other process makes an index. A growth that was cut off is ended before.
  ///
  /// - Returns: nil if one does.
  func withoutOtherMakers<Result>(
    of files: PackFiles, _ control: ControlFile, _ body: () throws -> Result
  ) throws -> Result? {
    guard !isBusy.exchange(true, ordering: .acquiring) else { return nil }
    defer { isBusy.store(false, ordering: .releasing) }
    guard try control.file.tryLock(ControlLayout.packByte) else { return nil }
    defer { control.file.unlock(ControlLayout.packByte) }
    try settleGrowth(files, control)
    return try body()
  }

  /// A larger index has come into force.
  func didGrow(_ packs: Packs) { _ = keep(packs) }

  /// Ends a growth whose process has died, and gives the index in force its name. The caller has the byte.
  private func settleGrowth(_ files: PackFiles, _ control: ControlFile) throws {
    control.settleGrowth()
    guard case .index(let next) = try PackIndex.open(PackIndex.nextName, in: files.directory),
      next.number == control.packIndexNumber
    else { return }
    try PackIndexGrowth.takeName(in: files.directory)
  }
}
