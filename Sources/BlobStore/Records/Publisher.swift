internal import BlobRecord
internal import Posix
internal import Synchronization
internal import SystemPackage

/// Writes records and puts them in their places, within the limits.
struct Publisher {
  let core: StoreCore
  /// nil where stores start no collections.
  let keeper: LimitKeeper?

  /// Makes room for a file: what waits to be overwritten goes first, then what a collection may remove.
  ///
  /// - Parameters:
  ///   - byteCount: of the file, as far as it is known.
  ///   - digest: of the record, which is not to lose what it has for it.
  ///   - rescues: collections that had been made for want of room when it was tried last.
  /// - Returns: whether another try is worth it.
  func makesRoom(for byteCount: Int64, of digest: UInt64, after rescues: Int) -> Bool {
    core.makesRoomByEmptyingBin() || keeper?.makesRoom(for: byteCount, of: digest, after: rescues) == true
  }

  /// Runs what may find no room, until it does or none can be made.
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
  ///   - condition: without which nothing is stored.
  ///   - write: fills the file, and may complete the header.
  /// - Throws: `ConditionFailed`.
  func publish(
    _ key: BlobKey, _ header: RecordHeader, locks: BlobStore.LockPolicy, mayRecycle: Bool, canWriteAgain: Bool,
    if condition: StoreCondition? = nil, _ write: (borrowing OpenFile, inout RecordHeader) throws -> Void
  ) throws -> StoreReceipt {
    let path = try core.path(for: key)
    var (header, condition) = (header, condition)
    if core.configuration.format == .checksummed { header.keyDigest = path.digest }
    // Collections in a tight loop have been seen to remove an empty subdirectory four times in a row before anything
    // was put into it. Making it again is cheap; writing the payload again is not.
    var (mayMakeAgain, mayWriteAgain) = (RootDirectory.removalsOutlasted, 3)
    var (mayRecycle, mayBeUnnamed) = (mayRecycle, canWriteAgain)
    // Kept while the record is written again: a collection is not to end meanwhile, as if nobody waited for room.
    var wait: LimitKeeper.Wait?
    defer { keeper?.stopAsking(&wait) }
    while true {
      var (hasWritten, wasRecycled, wasUnnamed) = (false, false, false)
      let rescues = keeper?.rescue.collections ?? 0
      do {
        let root = try core.root.openedOrMade()
        let subdirectory = try root.madeSubdirectory(path.subdirectory)
        var temporary = try fileToWrite(
          header, at: path, mayBeRecycled: mayRecycle, mayBeUnnamed: mayBeUnnamed, in: subdirectory, of: root)
        (hasWritten, wasRecycled, wasUnnamed) = (true, temporary.isRecycled, temporary.isUnnamed)
        try write(temporary.file, &header)
        try temporary.cutOff(at: Self.fileByteCount(header))
        return try publish(&temporary, at: path, of: root, header, locks: locks, if: &condition, &wait)
      } catch is NotToBeRecycled {
        // Only a payload in memory is written to a recycled file.
        mayRecycle = false
      } catch let error as Published {
        // Not to be done again: others may have locked the record meanwhile.
        throw error.cause
      } catch let error as FileError where wasRecycled && error.mayBeOfRecycledFilesOnly {
        // A file of another volume, a lease that the kernel has taken away, a bin that may be written to but not renamed from.
        if error.isLackOfPermission { try core.refuseBin(error) }
        mayRecycle = false
      } catch let error as FileError
        where wasUnnamed && error.call == .linkUnnamed && core.root.files.refusesUnnamedFiles
      {
        mayBeUnnamed = false
      } catch let error as FileError where error.isLackOfDirectory {
        // Somebody removed the subdirectory (a collection does, when it is empty), the recycled file or the root under us.
        if wasRecycled || wasUnnamed {
          // A file with a name keeps its subdirectory from being empty.
          (mayRecycle, mayBeUnnamed) = (false, false)
        } else if hasWritten {
          guard canWriteAgain, mayWriteAgain > 0 else { throw error }
          mayWriteAgain -= 1
        } else {
          guard mayMakeAgain > 0 else { throw error }
          mayMakeAgain -= 1
        }
        try core.root.opened()?.forgetSubdirectory(path.subdirectory)
        _ = try core.root.forgetIfReplacedNow()
      } catch let error as FileError where error.isLackOfRoom {
        guard canWriteAgain || !hasWritten,
          makesRoom(for: Self.fileByteCount(header), of: path.digest, after: rescues)
        else { throw error }
      }
    }
  }

  /// A file from the recycling bin, if there is one of that size, else a new one.
  private func fileToWrite(
    _ header: RecordHeader, at path: RecordPath, mayBeRecycled: Bool, mayBeUnnamed: Bool,
    in subdirectory: OpenSubdirectory, of root: RootDirectory.Opened
  ) throws -> TemporaryFile {
    if mayBeRecycled,
      let recycled = core.recycledFile(for: header, at: path, byteCount: Self.fileByteCount(header), of: root)
    {
      return TemporaryFile(recycled, in: subdirectory, names: core.temporaryNames)
    }
    if mayBeUnnamed, let file = try subdirectory.directory.createUnnamedFile(permissions: root.permissions(of: .record))
    {
      return try TemporaryFile(unnamed: file, in: subdirectory, of: root, names: core.temporaryNames)
    }
    return try TemporaryFile(in: subdirectory, of: root, names: core.temporaryNames)
  }

  /// The bytes of a record's file.
  private static func fileByteCount(_ header: RecordHeader) -> Int64 {
    Int64(RecordHeader.byteCount).saturatingAdding(Int64(clamping: header.payloadSize))
  }

  /// What one try to publish under the stripe has come to.
  private enum Publication {
    case done(BlobStore.Durability.Level, exceeding: BlobStore.UsageEstimate?, generation: UInt64?)
    /// There is too much in the directory.
    case mustWait(BlobStore.UsageEstimate)
    /// The record must be on the medium before it is published, which is not done under the stripe.
    case mustSync(BlobStore.Durability.Level)
  }

  private func publish(
    _ temporary: inout TemporaryFile, at path: RecordPath, of root: RootDirectory.Opened, _ header: RecordHeader,
    locks: BlobStore.LockPolicy, if condition: inout StoreCondition?, _ wait: inout LimitKeeper.Wait?
  ) throws -> StoreReceipt {
    let askedRefCount = header.refCount
    var header = header
    var level = core.configuration.durability.level(concernsLock: header.isLocked)
    var isSynced = false
    var syncs = 0
    keeper?.willStore(path.digest)
    while true {
      if level > .none, !isSynced {
        // After a failure the file is given up, never synced again.
        try temporary.synchronize(level)
        isSynced = true
        syncs += 1
      }
      let publication = try core.stripes.withStripe(of: path.digest) { hold throws -> Publication in
        if let condition, !condition.holds(in: hold.history) { throw ConditionFailed() }
        // A try that fails, and is made again, changes the generation too.
        defer { condition?.noteOwnChange(hold.generation) }
        let byteCount = Self.fileByteCount(header)
        if header.refCount == askedRefCount, mayTryWithoutLooking(temporary, locks: locks) {
          let new = RecordSize(bytes: byteCount, isLocked: header.isLocked)
          let counted = try counting(hold, from: nil, to: new, &wait) {
            try hold.changingPayload(level) { try temporary.publishIfAbsent(as: path.fileName) } == true
          }
          if case .done(let usage) = counted {
            try keep(path.fileName, new, level, in: temporary.subdirectory, hold, if: condition)
            return .done(level, exceeding: usage, generation: hold.generation)
          }
          // Else something has the name, or there is no room for more: what replaces something may take as much room as that.
        }
        let displaced = try recordToDisplace(at: path, in: temporary.subdirectory.directory, of: root)
        core.lastStoreReplaced.store(displaced != nil, ordering: .relaxed)
        // Counted anew on each try: between two, while this one syncs, others lock and unlock.
        let refCount = locks.refCount(replacing: displaced?.header?.refCount ?? 0)
        if refCount != header.refCount {
          header.refCount = refCount
          try header.withEncodedBytes { head throws(FileError) in try temporary.file.write(head, at: 0) }
          isSynced = false
        }
        let concernsLock = header.isLocked || displaced?.header?.isLocked ?? false
        let needed = core.configuration.durability.level(concernsLock: concernsLock)
        if let place = temporary.recycled, needed > .none || header.isLocked || !place.isStillSafe {
          throw NotToBeRecycled()
        }
        if needed > .none, !isSynced || needed > level {
          guard syncs >= Self.syncsBesideOthers else { return .mustSync(needed) }
          try temporary.synchronize(needed)
          (level, isSynced) = (needed, true)
        }
        let new = RecordSize(bytes: byteCount, isLocked: header.isLocked)
        let counted = try counting(
          hold, from: displaced.map { RecordSize(bytes: $0.file.byteCount, isLocked: $0.header?.isLocked ?? false) },
          to: new, &wait
        ) {
          try hold.changingPayload(needed) { try publish(&temporary, as: path.fileName, displaced, needed, of: root) }
          return true
        }
        switch counted {
        case .mustWait(let usage): return .mustWait(usage)
        case .done(let usage):
          try keep(path.fileName, new, needed, in: temporary.subdirectory, hold, if: condition)
          return .done(needed, exceeding: usage, generation: hold.generation)
        case .notPublished: return .done(needed, exceeding: nil, generation: nil)
        }
      }
      switch publication {
      case .mustSync(let needed):
        level = needed
        isSynced = false
      case .mustWait(let usage):
        try keeper?.waitForRoom(&wait, usage, for: Self.fileByteCount(header))
      case .done(let reached, let usage, let generation):
        if let usage { keeper?.start(usage) }
        keeper?.didStore(Self.fileByteCount(header))
        if reached == .full {
          do throws(FileError) {
            try temporary.subdirectory.directory.synchronize()
            if !path.subdirectory.isEmpty { try root.directory.synchronize() }
          } catch {
            throw Published(cause: error)
          }
        }
        return StoreReceipt(header: header, generation: generation)
      }
    }
  }

  /// Publishes a record and counts it, if there is room for it.
  private func counting(
    _ hold: StripeHold, from before: RecordSize?, to after: RecordSize, _ wait: inout LimitKeeper.Wait?,
    _ publish: () throws -> Bool
  ) throws -> CountedPublication {
    if let keeper, wait != nil {
      // Who waits looks first: what it counted for a moment, the collection that makes room would make room for too.
      if let usage = hold.usageBeyondBounds(from: before, to: after, keeper.limit) { return .mustWait(usage) }
      keeper.stopAsking(&wait)
    }
    return try hold.counting(from: before, to: after, within: keeper?.limit, publish)
  }

  /// Sees to it that a record which has just taken its place may stay there. A wipe takes no stripe where it finds no record: it
  /// may have begun, and passed the place, since the condition was found to hold. If so, the record is removed for it.
  ///
  /// - Throws: `ConditionFailed`.
  private func keep(
    _ fileName: String, _ size: RecordSize, _ level: BlobStore.Durability.Level, in subdirectory: OpenSubdirectory,
    _ hold: StripeHold, if condition: StoreCondition?
  ) throws {
    guard let condition, !condition.stillHolds(in: hold.history) else { return }
    do {
      let isRemoved = try hold.changingPayload(level) { try subdirectory.directory.unlink(fileName) }
      if isRemoved { hold.count(from: size, to: nil) }
    } catch {
      throw Published(cause: error)
    }
    throw ConditionFailed()
  }

  /// How often a record is written and synced while others lock and unlock the one it is to replace. After that they wait
  /// for it: else, if they are at it without end, so would it be.
  private static let syncsBesideOthers = 3

  /// Whether a file may take its name, if that is free, before anybody has looked whether it is.
  ///
  /// To look where there is nothing is a call too many, and so is to try where there is something. A new file tries; a
  /// recycled one does what would have been right for the last store. But once it has tried, nobody may write to a recycled
  /// file, as who keeps locks may have to.
  private func mayTryWithoutLooking(_ temporary: borrowing TemporaryFile, locks: BlobStore.LockPolicy) -> Bool {
    guard let place = temporary.recycled else { return true }
    return !locks.keepsLocks && !core.lastStoreReplaced.load(ordering: .relaxed) && place.isStillSafe
  }

  /// Puts a record in its place under its stripe, and what it displaces where it belongs.
  private func publish(
    _ temporary: inout TemporaryFile, as fileName: String, _ displaced: Displaced?, _ level: BlobStore.Durability.Level,
    of root: RootDirectory.Opened
  ) throws {
    guard let displaced else { return try temporary.publishNew(as: fileName) }
    guard let room = core.roomInBin(for: displaced.file, level, of: root) else {
      return try temporary.publish(as: fileName)
    }
    if let failure = try temporary.publish(as: fileName, keepingDisplacedIn: room) {
      core.noteFailure(failure, of: root)
    }
  }

  /// A record that is about to be replaced.
  private struct Displaced {
    let file: DisplacedFile
    /// nil if it is damaged: then it tells of no locks.
    let header: RecordHeader?
  }

  /// - Returns: nil if there is no record.
  /// - Throws: `foreignFile` if what lies there is none of ours, and so not to be replaced.
  private func recordToDisplace(
    at path: RecordPath, in directory: borrowing Directory, of root: RootDirectory.Opened
  ) throws -> Displaced? {
    do {
      return try readRecordToDisplace(at: path, in: directory, of: root)
    } catch let error as FileError {
      guard let record = root.foreignRecord(at: path, after: error) else { throw error }
      throw Self.refusal(record)
    }
  }

  private static func refusal(_ record: BlobStore.ForeignRecord) -> BlobStoreError {
    BlobStoreError(
      .foreignFile, "what lies where the record belongs is left alone: \(record.explanation)", path: record.path)
  }

  private func readRecordToDisplace(
    at path: RecordPath, in directory: borrowing Directory, of root: RootDirectory.Opened
  ) throws -> Displaced? {
    switch try directory.openFile(path.fileName, for: .read) {
    case .absent: return nil
    case .regular(let file, let status):
      guard root.owns(status) else { throw Self.refusal(BlobStore.ForeignRecord(path, status, in: root)) }
      let verdict = try file.judgeHeader(
        RecordJudge(), RecordFacts(fileSize: status.size, nameDigest: path.digest))
      // A damaged record tells of no locks.
      let header = root.owners.expose(status) ? nil : verdict.soundHeader
      return Displaced(file: DisplacedFile(path.fileName, status, header: header), header: header)
    case .notRegular: break
    }
    throw BlobStoreError(
      .foreignFile, "what lies where the record belongs is no file of this cache's, and is left alone",
      path: directory.path.appending(path.fileName))
  }
}

/// A record that was written to a recycled file needs a new one, as shows only once its place is looked at: it must be on the
/// medium before it takes that, because the record there is locked; or what the file held before must not come back with a
/// power cut any more.
private struct NotToBeRecycled: Error {}

/// The record has taken its place, and is not known to be on the medium, or was to be taken back.
private struct Published: Error {
  let cause: any Error
}

extension TemporaryFile {
  /// Brings the record to the medium.
  fileprivate borrowing func synchronize(_ level: BlobStore.Durability.Level) throws(FileError) {
    try file.synchronize(level == .full ? .full : .barrier)
  }
}

extension FileError {
  /// Whether it is one of the calls that give a recycled file its place, and a new file may be given it: not where there
  /// is no room or no directory, and not where somebody else has just taken the name.
  fileprivate var mayBeOfRecycledFilesOnly: Bool {
    [.rename, .renameExchange, .renameNoReplace, .lease].contains(call) && !isLackOfRoom && !isLackOfDirectory
      && errno != .fileExists
  }
  /// Whether it is the caller who may not change a directory.
  fileprivate var isLackOfPermission: Bool { [.permissionDenied, .notPermitted].contains(errno) }
  fileprivate var isLackOfDirectory: Bool { errno == .noSuchFileOrDirectory }
}
