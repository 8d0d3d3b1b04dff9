internal import Locks
internal import Logging
internal import Posix
internal import Synchronization

/// Opens the packs of a directory, and creates missing packs or their index.
final class PackHolder: Sendable {
  private let stripes: StripeLocks
  private let names: TemporaryNames
  private let logger: Logger
  private let timeout: Duration
  private let leastEntryCount: Int
  private let chunkByteCount: Int
  private let isMapped: Bool
  private let opened = Lock<Packs?>(nil)
  /// A Boolean value that indicates whether a thread is opening or creating an index. The lock of `packByte` does not
  /// exclude threads of one process from each other.
  private let isBusy = Atomic(false)

  init(_ stripes: StripeLocks, names: TemporaryNames, _ configuration: BlobStore.Configuration) {
    self.stripes = stripes
    self.names = names
    logger = configuration.logger
    timeout = configuration.access.lockTimeout
    leastEntryCount = configuration.leastPackIndexEntryCount
    isMapped = configuration.packReads == .mapped
    chunkByteCount = configuration.packChunkByteCount ?? PackLayout.chunkByteCount
  }

  /// Returns the packs of a directory with the index in force, or `nil` if the directory has no packs.
  ///
  /// System calls: none once the packs are open or known to be missing. After a boot, the first process to ask
  /// rebuilds the index, and the others wait for it.
  ///
  /// - Parameter control: The control file of the directory. If its memory is not shared, packs are not used.
  /// - Throws: `busy` if another process takes longer than `lockTimeout` to create the index; errors of the creation.
  func packs(of open: OpenRoot, _ control: ControlFile, makesThem: Bool) throws -> Packs? {
    switch known(of: control) {
    case .open(let packs): packs
    case .none where !makesThem || !control.isMapped: nil
    case .none, .unknown:
      try control.isMapped ? find(in: open, control, makesThem: makesThem) : findToRead(in: open, control)
    }
  }

  /// The state of the packs of a directory, as far as this process knows without system calls.
  enum Knowledge {
    case none
    case open(Packs)
    /// The directory has to be read.
    case unknown
  }

  func known(of control: ControlFile) -> Knowledge {
    guard control.isReadable else { return .none }
    let number = control.packIndexNumber
    guard number != 0 else { return control.hasNoPacks.load(ordering: .relaxed) ? .none : .unknown }
    guard let packs = opened.withLock({ $0 }), packs.control === control, packs.index.number == number else {
      return .unknown
    }
    return .open(packs)
  }

  /// Prefetches the bucket of a name in the last known index.
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
      // Another process may have created it in the meantime, or died before a larger one was in force.
      try settleGrowth(files, control)
      if let index = try indexInForce(files, control, boot) { return keep(Packs(index, files, control)) }
      // No change of the current boot is in progress, because each of them needs an index.
      if try mayBeAnotherBoot(files, control, boot) { control.forgetIntents() }
      let recovery = PackRecovery(
        files: files, control: control, boot: boot, names: names, leastEntryCount: leastEntryCount)
      return keep(Packs(try recovery.run(), files, control))
    } while backoff.wait()
    throw BlobStoreError(
      .busy, "another process has been making the index of the packs for \(timeout)", path: open.directory.path)
  }

  /// Returns the packs for a process that may not write to them. After a boot, it finds no packs until a process with
  /// write access has created their index.
  @inline(never)
  private func findToRead(in open: OpenRoot, _ control: ControlFile) throws -> Packs? {
    guard let boot = SystemBoot.identifier,
      let directory = try PackDirectory.open(in: open, makesIt: false, for: .read), try directory.hasPacks
    else {
      // Remembered, so that not every load makes these system calls.
      control.hasNoPacks.store(true, ordering: .relaxed)
      return nil
    }
    let files = packFiles(in: directory)
    // A larger index may come into force between the reading of its number and its opening.
    for _ in 0..<3 {
      let number = control.packIndexNumber
      if let index = try indexInForce(files, control, boot) { return keep(Packs(index, files, control)) }
      if control.packIndexNumber == number { break }
    }
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

  /// Returns the files of the packs, or `nil` if the directory has no packs and may not get any.
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
    try synchronizeName(of: directory, in: open)
    return packFiles(in: directory)
  }

  /// Syncs the root before the first pack is created, because a durable record requires a durable directory.
  private func synchronizeName(of directory: PackDirectory, in open: OpenRoot) throws {
    if try !directory.hasPacks { try open.directory.synchronize() }
  }

  /// Returns whether announced changes may be older than the last boot. Without an index, a living session shows that
  /// there was no boot. Without another session, no process that announced a change has reported it as done, so the
  /// walk decides which records are valid.
  private func mayBeAnotherBoot(_ files: PackFiles, _ control: ControlFile, _ boot: SIMD2<UInt64>) throws -> Bool {
    if case .index(let index) = try PackIndex.open(in: files.directory) { return index.boot != boot }
    return try !control.hasOtherSessions()
  }

  /// Returns the index in force, or `nil` if it is missing, damaged, or of another boot.
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
  /// Removes the packs of a directory and their index if they contain no record.
  ///
  /// No key is held, so no change is in progress. A process that has the packs open notices that its index is no
  /// longer in force, and then that no packs exist. The dead bits are synced before the names are unlinked, because a
  /// power cut that preserves a pack must not restore its records.
  ///
  /// System calls: a sync of each pack, two calls to unlink each file, and a sync of the root.
  ///
  /// - Returns: `false` if a record exists, a change is in progress, or another process creates an index.
  func removeEmptyPacks(_ packs: Packs, of open: OpenRoot) throws -> Bool {
    let (files, control) = (packs.files, packs.control)
    guard packs.index.hasNoEntries else { return false }
    try files.synchronize()
    let isRemoved =
      try withoutOtherMakers(of: files, control) {
        try stripes.whileNothingChanges(in: control) {
          guard packs.isInForce, packs.index.hasNoEntries else { return false }
          // From here on, every process considers its open index invalid.
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
  /// Ends an interrupted growth and runs a closure, or returns `nil` if another thread or process creates an index.
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

  func didGrow(_ packs: Packs) { _ = keep(packs) }

  /// Ends the growth of a process that died, and renames the index in force. The caller has locked `packByte`.
  private func settleGrowth(_ files: PackFiles, _ control: ControlFile) throws {
    control.settleGrowth()
    guard case .index(let next) = try PackIndex.open(PackIndex.nextName, in: files.directory),
      next.number == control.packIndexNumber
    else { return }
    try PackIndexGrowth.takeName(in: files.directory)
  }
}
