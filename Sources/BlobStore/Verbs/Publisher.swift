internal import BlobRecord
internal import Posix
internal import Synchronization
internal import SystemPackage

/// Writes records and puts them in their places, within the limits.
struct Publisher {
  let core: StoreCore
  /// nil where stores start no collections.
  let keeper: LimitEnforcer?

  /// Makes room for a file: the recycling bin is emptied first, then a collection removes records.
  ///
  /// - Parameters:
  ///   - byteCount: of the file, as far as it is known.
  ///   - digest: of the record, whose old blob must not be removed for the room.
  ///   - rescues: collections that had been made for want of room when it was tried last.
  /// - Returns: whether another try is worth it.
  func makesRoom(for byteCount: Int64, of digest: UInt64, after rescues: Int) -> Bool {
    core.supply.makesRoomByEmptyingBin()
      || keeper?.makeRoomOnFullVolume(for: byteCount, of: digest, after: rescues) == true
  }

  /// Runs a call again and again until it finds room, or none can be made.
  func makingRoom<Result>(for byteCount: Int64, of digest: UInt64, _ body: () throws -> Result) throws -> Result {
    while true {
      let rescues = keeper?.rescue.collections ?? 0
      do {
        return try body()
      } catch let error as FileError where error.isLackOfRoom {
        guard makesRoom(for: byteCount, of: digest, after: rescues) else { throw error }
      }
    }
  }

  /// Writes a record beside its place and puts it there.
  ///
  /// - Parameters:
  ///   - mayRecycle: whether the header has the payload's size and checksum, so that a recycled file may be overwritten.
  ///   - canWriteAgain: whether `write` may be called more than once.
  ///   - extendedData: lies behind the payload.
  ///   - condition: must hold for anything to be stored.
  ///   - write: fills the file, and may complete the header.
  /// - Throws: `ConditionFailed`.
  func publish(
    _ key: BlobKey, _ header: RecordHeader, extendedData: Data?, locks: BlobStore.LockPolicy, mayRecycle: Bool,
    canWriteAgain: Bool, if condition: StoreCondition? = nil,
    _ write: (borrowing OpenFile, inout RecordHeader) throws -> Void
  ) throws -> StoreReceipt {
    var path = try core.path(for: key)
    var (header, condition) = (header, condition)
    if core.configuration.format == .checksummed { header.keyDigest = path.digest }
    let tail = try core.newExtension(of: key, at: path, extendedData)?.encoded
    header.extensionEnd = tail.map { UInt32($0.count) }
    var attempts = DraftAttempts(mayRecycle: mayRecycle, canWriteAgain: canWriteAgain)
    // Kept while the record is written again, so that a collection does not end as if no store waited for room.
    var wait: LimitEnforcer.Wait?
    defer { keeper?.stopAsking(&wait) }
    while true {
      var kind: FileDraft.Kind?
      let rescues = keeper?.rescue.collections ?? 0
      do {
        let (open, subdirectory) = try madePlace(of: &path)
        var draft = try core.records.draft(header, for: path, attempts, in: subdirectory, of: open)
        kind = draft.kind
        try draft.fill(&header) { file, header in
          try write(file, &header)
          guard let tail else { return }
          // The payload may have come from where it cannot be read again.
          let offset = header.fileByteCount - Int64(tail.count)
          try makingRoom(for: Int64(tail.count), of: path.digest) {
            try file.write(unsafe tail.span.bytes, at: offset)
          }
        }
        return try publish(&draft, at: path, of: open, header, locks: locks, if: &condition, &wait)
      } catch {
        let step = attempts.step(after: error, of: kind, refusesUnnamed: core.root.files.refusesUnnamedFiles)
        try prepare(step, after: error, at: path, for: header.fileByteCount, after: rescues)
      }
    }
  }

  /// The directory, made where it is missing. A new one has said how it is arranged, and what is packed.
  func madeRoot() throws -> OpenRoot {
    let open = try core.root.openedOrMade()
    if open.mustSayArrangement || open.packing == nil { try SettingsChange(core).sayWhatIsNew(in: open) }
    return open
  }

  /// The directory, for what makes a control file before there is a record. A new one says first what holds in it, unless there is
  /// no room for that.
  func madeRootOfLocks() throws -> OpenRoot {
    do {
      return try madeRoot()
    } catch let error as FileError where error.isLackOfRoom {
      return try core.root.openedOrMade()
    }
  }

  /// The directory, and in it the subdirectory of a record, both made where they are missing.
  ///
  /// - Parameter path: becomes the record's in this directory.
  private func madePlace(of path: inout RecordPath) throws -> (open: OpenRoot, subdirectory: OpenSubdirectory) {
    let open = try madeRoot()
    path = open.placed(path)
    return (open, try open.madeSubdirectory(path.subdirectory))
  }

  /// Does what another try needs.
  ///
  /// - Parameters:
  ///   - byteCount: of the file, as far as it is known.
  ///   - rescues: collections that had been made for want of room before the try that failed.
  /// - Throws: the error, where no other try is worth it.
  private func prepare(
    _ step: DraftAttempts.Step, after error: any Error, at path: RecordPath, for byteCount: Int64, after rescues: Int
  ) throws {
    switch step {
    case .again: break
    case .refuseBin: try core.supply.refuseBin(error)
    case .lookAgain:
      try core.root.opened()?.forgetSubdirectory(path.subdirectory)
      _ = try core.root.forgetIfReplacedNow()
    case .makeRoom:
      guard makesRoom(for: byteCount, of: path.digest, after: rescues) else { throw error }
    case .giveUp: throw (error as? Published)?.cause ?? error
    }
  }

  /// Makes a file that is written to by and by, under a temporary name.
  ///
  /// A file without a name may be refused its name in the end, and what a stream has written cannot be written again.
  ///
  /// - Parameter byteCount: of the file, as far as it is known.
  func makeDraft(_ header: RecordHeader, at path: RecordPath, for byteCount: Int64) throws -> PlacedDraft {
    var path = path
    var attempts = DraftAttempts(mayRecycle: false, canWriteAgain: false)
    while true {
      let rescues = keeper?.rescue.collections ?? 0
      do {
        let (open, subdirectory) = try madePlace(of: &path)
        return PlacedDraft(
          draft: try core.records.draft(header, for: path, attempts, in: subdirectory, of: open), path: path, root: open
        )
      } catch {
        let step = attempts.step(after: error, of: nil, refusesUnnamed: core.root.files.refusesUnnamedFiles)
        try prepare(step, after: error, at: path, for: byteCount, after: rescues)
      }
    }
  }

  /// Puts a record that is written into its place. It cannot be written again, so a failure is the last.
  func publish(
    _ placed: inout PlacedDraft, _ header: RecordHeader, locks: BlobStore.LockPolicy,
    if condition: StoreCondition? = nil
  ) throws -> StoreReceipt {
    if let receipt = try publishPacked(placed, header, locks: locks, if: condition) { return receipt }
    var condition = condition
    var wait: LimitEnforcer.Wait?
    defer { keeper?.stopAsking(&wait) }
    do {
      return try publish(&placed.draft, at: placed.path, of: placed.root, header, locks: locks, if: &condition, &wait)
    } catch let error as Published {
      throw error.cause
    }
  }

  /// The outcome of one try to publish under the key's hold.
  private enum Publication {
    case done(BlobStore.Durability.Level, exceeding: BlobStore.UsageEstimate?, generation: UInt64?)
    /// The directory holds too much.
    case mustWait(BlobStore.UsageEstimate)
    /// The record must be on the medium before it is published, which is not done while the key is held.
    case mustSync(BlobStore.Durability.Level)
  }

  /// A record that is written, on its way to its place.
  private struct Pending {
    var header: RecordHeader
    /// Of the header as it was asked for: without the locks of the record that is replaced.
    let askedRefCount: UInt32
    let locks: BlobStore.LockPolicy
    /// How the record must get to the medium.
    var level: BlobStore.Durability.Level
    /// Whether it is there, as it is now.
    var isSynced = false
    var syncs = 0

    /// Whether the payload comes later.
    var isStream: Bool { header.flags.contains(.streamIncomplete) }

    var size: RecordSize {
      isStream ? .stream : RecordSize(bytes: header.fileByteCount, isLocked: header.isLocked)
    }
  }

  private func publish(
    _ draft: inout FileDraft, at path: RecordPath, of open: OpenRoot, _ header: RecordHeader,
    locks: BlobStore.LockPolicy, if condition: inout StoreCondition?, _ wait: inout LimitEnforcer.Wait?
  ) throws -> StoreReceipt {
    var pending = Pending(
      header: header, askedRefCount: header.refCount, locks: locks,
      level: core.configuration.durability.level(concernsLock: header.isLocked))
    keeper?.willStore(path.digest)
    while true {
      if pending.level > .none, !pending.isSynced {
        // After a failure the file is given up, never synced again.
        try draft.synchronize(pending.level)
        pending.isSynced = true
        pending.syncs += 1
      }
      let publication = try place(&draft, &pending, at: path, of: open, if: &condition, &wait)
      switch publication {
      case .mustSync(let needed):
        pending.level = needed
        pending.isSynced = false
      case .mustWait(let usage):
        try keeper?.waitForRoom(&wait, usage, for: pending.header.fileByteCount)
      case .done(let reached, let usage, let generation):
        // A stream is counted, and makes room, with its commit.
        if !pending.isStream { didStore(pending.header, at: path, of: open, exceeding: usage) }
        if reached == .full { try synchronizeEntry(of: draft, at: path, of: open) }
        return StoreReceipt(header: pending.header, generation: generation)
      }
    }
  }

  /// Counts a record that was stored, and starts a collection where it is one too many.
  func didStore(
    _ header: RecordHeader, at path: RecordPath, of open: OpenRoot, exceeding usage: BlobStore.UsageEstimate?
  ) {
    // First, as it may make the file of uses: a collection that is started would walk beside that.
    core.countStore(of: path.digest, byteCount: Int64(clamping: header.payloadSize), in: open)
    if let usage { keeper?.start(usage) }
    keeper?.didStore(header.fileByteCount)
  }

  /// Puts the name of a record on the medium.
  func synchronizeEntry(of draft: borrowing FileDraft, at path: RecordPath, of open: OpenRoot) throws {
    do throws(FileError) {
      try draft.subdirectory.directory.synchronize()
      if !path.subdirectory.isEmpty { try open.directory.synchronize() }
    } catch {
      throw Published(cause: error)
    }
  }

  /// Holds the key and puts a record in its place, unless there is no room, or it must be synced first.
  private func place(
    _ draft: inout FileDraft, _ pending: inout Pending, at path: RecordPath, of open: OpenRoot,
    if condition: inout StoreCondition?, _ wait: inout LimitEnforcer.Wait?
  ) throws -> Publication {
    var hold = try core.hold(path.digest)
    if let condition, !condition.holds(in: hold.history) { throw ConditionFailed() }
    // A try that fails, and is made again, changes the generation too.
    defer { condition?.noteOwnChange(hold.generation) }
    if pending.header.refCount == pending.askedRefCount, condition?.judge == nil,
      mayTryWithoutLooking(draft, locks: pending.locks), try !core.records.mayBePacked(path, of: open)
    {
      let outcome = try commit(
        &draft, as: path, pending.size, replacing: nil, isSureOfName: false, pending.level, of: open, &wait, &hold)
      if case .done(let usage) = outcome {
        try keep(path, pending.size, pending.level, in: draft.subdirectory, &hold, if: condition)
        return .done(pending.level, exceeding: usage, generation: hold.generation)
      }
      // Else a file has the name, or there is no room. A record that replaces another may take that one's room.
    }
    let judge = condition?.judge == nil ? RecordJudge() : core.judge(at: core.configuration.now())
    let found = try recordToReplace(at: path, in: draft.subdirectory.directory, of: open, by: judge)
    let before = Predecessor(found)
    if let condition, !condition.allows(before?.liveHeader) { throw ConditionFailed() }
    core.lastStoreReplaced.store(before != nil, ordering: .relaxed)
    // Counted anew on each try: between two, while this one syncs, others lock and unlock.
    let refCount = pending.locks.refCount(replacing: before?.refCount ?? 0)
    if refCount != pending.header.refCount {
      pending.header.refCount = refCount
      try pending.header.withEncodedBytes { head throws(FileError) in try draft.file.write(head, at: 0) }
      pending.isSynced = false
    }
    let concernsLock = pending.header.isLocked || before?.size.isLocked ?? false
    let needed = core.configuration.durability.level(concernsLock: concernsLock)
    if draft.isRecycled, needed > .none || pending.header.isLocked || !draft.isStillSafe {
      throw UnfitForRecycling()
    }
    if needed > .none, !pending.isSynced || needed > pending.level {
      guard pending.syncs >= Self.syncsBesideOthers else { return .mustSync(needed) }
      try draft.synchronize(needed)
      (pending.level, pending.isSynced) = (needed, true)
    }
    switch try commit(
      &draft, as: path, pending.size, replacing: found, isSureOfName: true, needed, of: open, &wait, &hold)
    {
    case .mustWait(let usage): return .mustWait(usage)
    case .done(let usage):
      try keep(path, pending.size, needed, in: draft.subdirectory, &hold, if: condition)
      return .done(needed, exceeding: usage, generation: hold.generation)
    case .nameIsTaken: return .done(needed, exceeding: nil, generation: nil)
    }
  }

  /// Commits a record within the limit, if there is room for it.
  private func commit(
    _ draft: inout FileDraft, as path: RecordPath, _ size: RecordSize, replacing found: borrowing FoundRecord?,
    isSureOfName: Bool, _ level: BlobStore.Durability.Level, of open: OpenRoot,
    _ wait: inout LimitEnforcer.Wait?,
    _ hold: inout KeyHold
  ) throws -> CommitOutcome {
    let limit = keeper?.limit
    if let usage = stillWaits(&wait, from: Predecessor(found)?.size, to: size, limit, hold) { return .mustWait(usage) }
    return try core.records.commit(
      &draft, as: path, size, replacing: found, isSureOfName: isSureOfName, level, within: limit, of: open, &hold)
  }

  /// - Returns: what there would be, if a store that waits for room has none yet.
  func stillWaits(
    _ wait: inout LimitEnforcer.Wait?, from before: RecordSize?, to after: RecordSize, _ limit: StoreLimit?,
    _ hold: borrowing KeyHold
  ) -> BlobStore.UsageEstimate? {
    guard let keeper, wait != nil else { return nil }
    // A store that waits looks before it counts. A collection would make room for its short count too.
    if let usage = hold.usageBeyondBounds(from: before, to: after, limit) { return usage }
    keeper.stopAsking(&wait)
    return nil
  }

  /// Checks that a record which has just taken its place may stay there. A wipe holds no key of which it finds no
  /// record. So it may have begun, and passed the place, since the condition was checked. If so, the record is removed
  /// for it.
  ///
  /// - Throws: `ConditionFailed`.
  private func keep(
    _ path: RecordPath, _ size: RecordSize, _ level: BlobStore.Durability.Level, in subdirectory: OpenSubdirectory,
    _ hold: inout KeyHold, if condition: StoreCondition?
  ) throws {
    guard let condition, !condition.stillHolds(in: hold.history) else { return }
    do {
      try core.records.withdraw(path, size, level, in: subdirectory.directory, &hold)
    } catch {
      throw Published(cause: error)
    }
    throw ConditionFailed()
  }

  /// How often a record is written and synced while others lock and unlock the one it replaces. After that the others
  /// wait for it. Otherwise a store beside endless changes would never end.
  private static let syncsBesideOthers = 3

  /// Whether a file may try to take its name before a look whether that is free.
  ///
  /// Looking first wastes a call for new keys, trying first one for replaced keys. So a new file tries, and a recycled
  /// one guesses from the last store. Nothing may write to a recycled file once it has tried, and a store that keeps
  /// locks may have to.
  private func mayTryWithoutLooking(_ draft: borrowing FileDraft, locks: BlobStore.LockPolicy) -> Bool {
    guard draft.isRecycled else { return true }
    return !locks.keepsLocks && !core.lastStoreReplaced.load(ordering: .relaxed) && draft.isStillSafe
  }

  /// - Parameter judge: whether age matters.
  /// - Returns: nil if there is no record.
  /// - Throws: `foreignFile` if the file there is not the cache's, and so must not be replaced.
  func recordToReplace(
    at path: RecordPath, in directory: borrowing Directory, of open: OpenRoot, by judge: RecordJudge = RecordJudge()
  ) throws -> FoundRecord? {
    switch core.records.find(path, in: directory, of: open, by: judge, readsExtension: false) {
    case .absent: return nil
    case .record(let found):
      if case .unreadable(let error) = found.content { throw error }
      return found
    case .foreign(let record?):
      throw BlobStoreError(
        .foreignFile, "what lies where the record belongs is left alone: \(record.explanation)", path: record.path)
    case .foreign(nil):
      throw BlobStoreError(
        .foreignFile, "what lies where the record belongs is no file of this cache's, and is left alone",
        path: directory.path.appending(path.fileName))
    }
  }
}

/// A draft, the place that its record will have, and the directory of both.
struct PlacedDraft: ~Copyable {
  var draft: FileDraft
  let path: RecordPath
  let root: OpenRoot
}
