internal import BlobRecord
internal import Posix

/// A change of one key's record, from the moment the key is held until it is released.
///
/// Both engines change records only by these steps, in this order. A store checks its condition, looks up the record
/// that it replaces, inherits its locks, and determines the durability. It is counted before its record becomes
/// visible, and the count is reverted if the record is not published. If a wipe has started in the meantime, the
/// record is removed again. The key's generation is odd from the first change until this value is destroyed, which
/// releases the key.
struct KeyTransaction: ~Copyable {
  let records: Records
  let open: OpenRoot
  let path: RecordPath
  var hold: KeyHold

  init(_ path: RecordPath, in open: OpenRoot, _ records: Records, _ hold: consuming KeyHold) {
    self.records = records
    self.open = open
    self.path = path
    self.hold = hold
  }

  var core: StoreCore { records.core }

  func level(concernsLock: Bool) -> BlobStore.Durability.Level {
    core.configuration.durability.level(concernsLock: concernsLock)
  }
}

// MARK: - Placing a record

extension KeyTransaction {
  enum Placement {
    case done(Placed)
    /// The directory is full. The key must be released while the store waits.
    case mustWait(BlobStore.UsageEstimate)
    /// The record must be synced before it is published. The key must be released for that.
    case mustSync(BlobStore.Durability.Level)
  }

  struct Placed {
    let level: BlobStore.Durability.Level
    /// The directory's usage, if it exceeds the limit for stores or is unknown.
    let exceeding: BlobStore.UsageEstimate?
    /// The key's generation after the key is released, or `nil` without generations.
    let generation: UInt64?
  }

  /// Publishes a record, unless the directory is full or the record must be synced first.
  ///
  /// - Throws: `ConditionFailed`, with nothing stored; `Published` if the record was published despite the error.
  mutating func place(_ draft: inout Draft, _ pending: inout PendingStore) throws -> Placement {
    if let condition = pending.condition, !condition.holds(in: hold.history) { throw ConditionFailed() }
    // Done even if the attempt fails, because it changes the generation too, and may be repeated.
    defer { pending.condition?.noteOwnChange(hold.generation) }
    if pending.hasLocksAsAsked, pending.condition?.isJudged != true,
      let level = try draft.levelWithoutLookup(pending, self)
    {
      if case .done(let usage) = try commit(&draft, pending, over: nil, nil, isSureOfName: false, level) {
        return try stay(&draft, pending, level, usage)
      }
      // The name is taken, or the directory is full. A record that replaces another one may still fit.
    }
    let judge = pending.condition?.isJudged == true ? core.judge(at: core.configuration.now()) : RecordJudge()
    let found = try draft.predecessor(self, by: judge)
    let before = Predecessor(found)
    let inheritance = try inherit(from: before, &pending)
    guard try draft.isReady(for: inheritance.level, pending.header, isChanged: inheritance.changesHeader) else {
      return .mustSync(inheritance.level)
    }
    switch try commit(&draft, pending, over: found, before, isSureOfName: true, inheritance.level) {
    case .refused(let usage): return .mustWait(usage)
    case .done(let usage): return try stay(&draft, pending, inheritance.level, usage)
    // Another program has created a file without holding the key, so the store repeats the lookup with a new file.
    case .nameIsTaken: throw UnfitForRecycling()
    }
  }

  /// Inherits the replaced record's locks, again on each attempt because they may have changed. Returns the required
  /// durability, and whether the header has changed. Throws `ConditionFailed`.
  func inherit(
    from before: Predecessor?, _ pending: inout PendingStore
  ) throws -> (level: BlobStore.Durability.Level, changesHeader: Bool) {
    if let condition = pending.condition, !condition.allows(before?.liveHeader) { throw ConditionFailed() }
    let refCount = pending.locks.refCount(replacing: before?.refCount ?? 0)
    let changesHeader = refCount != pending.header.refCount
    pending.header.refCount = refCount
    return (level(concernsLock: pending.header.isLocked || before?.size.isLocked ?? false), changesHeader)
  }

  /// Counts a store before its record is published, unless the directory is full. `KeyHold.endCount` must follow.
  func count(_ pending: borrowing PendingStore, over before: RecordSize?) -> KeyHold.CountedAhead {
    if let stopWaiting = pending.stopWaiting {
      // A waiting store checks before it counts, because a collection would make room even for a reverted count.
      if let usage = hold.usageBeyondBounds(from: before, to: pending.size, pending.limit) { return .refused(usage) }
      stopWaiting()
    }
    return hold.countAhead(from: before, to: pending.size, within: pending.limit)
  }

  private enum Commit {
    case done(exceeding: BlobStore.UsageEstimate?)
    case nameIsTaken
    /// The store would exceed the limit.
    case refused(BlobStore.UsageEstimate)
  }

  private mutating func commit(
    _ draft: inout Draft, _ pending: borrowing PendingStore, over found: borrowing FoundRecord?, _ before: Predecessor?,
    isSureOfName: Bool, _ level: BlobStore.Durability.Level
  ) throws -> Commit {
    let exceeding: BlobStore.UsageEstimate?
    switch count(pending, over: before?.size) {
    case .refused(let usage): return .refused(usage)
    case .counted(let usage): exceeding = usage
    }
    do {
      let isInPlace = try draft.commit(pending.header, over: found, isSureOfName: isSureOfName, level, &self)
      hold.endCount(from: before?.size, to: pending.size, isInPlace: isInPlace)
      return isInPlace ? .done(exceeding: exceeding) : .nameIsTaken
    } catch {
      hold.endCount(from: before?.size, to: pending.size, isInPlace: error is Published)
      throw error
    }
  }

  /// Checks that a record that was just published may stay. A wipe holds no key without a record, so it may have
  /// started and passed this key since the condition was checked. In that case, this method removes the record and
  /// throws `ConditionFailed`.
  private mutating func stay(
    _ draft: inout Draft, _ pending: borrowing PendingStore, _ level: BlobStore.Durability.Level,
    _ usage: BlobStore.UsageEstimate?
  ) throws -> Placement {
    guard let condition = pending.condition, !condition.stillHolds(in: hold.history) else {
      return .done(Placed(level: level, exceeding: usage, generation: hold.generation))
    }
    try afterPublication { try draft.withdraw(pending.size, level, &self) }
    throw ConditionFailed()
  }
}

// MARK: - Removing

extension KeyTransaction {
  /// Removes a record, in either engine, that a lookup under this hold has returned. For a packed record, a file with
  /// the same name is removed too.
  ///
  /// - Returns: The durability of the removal, or `nil` if the record no longer exists.
  /// - Throws: `ConditionFailed`.
  mutating func remove(
    _ found: borrowing FoundRecord, recycling: Bool, erasing: Bool = false, in directory: borrowing Directory,
    if condition: StoreCondition?
  ) throws -> BlobStore.Durability.Level? {
    if let condition, !condition.holds(in: hold.history) || !condition.allows(found.liveHeader) {
      throw ConditionFailed()
    }
    let level = level(concernsLock: found.mayBeLocked)
    let isRemoved = try remove(found, level, recycling: recycling, erasing: erasing, in: directory)
    return isRemoved ? level : nil
  }

  /// Removes a record unconditionally, with the given durability. Returns `false` if it no longer exists.
  mutating func remove(
    _ found: borrowing FoundRecord, _ level: BlobStore.Durability.Level, recycling: Bool, erasing: Bool = false,
    in directory: borrowing Directory
  ) throws -> Bool {
    try records.remove(found, level, recycling: recycling, erasing: erasing, in: directory, of: open, &hold)
  }
}

extension KeyTransaction {
  /// Notifies watchers of the key that it has changed, although nothing is stored under it.
  mutating func noteChange() { hold.noteChange() }

  /// Unlinks a file under a packed record's name, which a power failure or a failed unlink has left. Returns `false` if
  /// the packed record is no longer sound and live, so that the file counts.
  func removeCoveredFile(in directory: borrowing Directory) throws -> Bool {
    guard try hasSoundPackedRecord() else { return false }
    _ = try directory.unlink(path.fileName)
    return true
  }

  private func hasSoundPackedRecord() throws -> Bool {
    let judge = core.judge(at: core.configuration.now())
    guard let found = try records.findPacked(path, of: open, by: judge, comparesPayload: true) else { return false }
    guard case .sound = found.content else { return false }
    return true
  }
}

// MARK: - Streams

extension KeyTransaction {
  enum Completion {
    case done(exceeding: BlobStore.UsageEstimate?)
    /// The record has been superseded or removed.
    case superseded
    /// The payload would exceed the limit.
    case mustWait(BlobStore.UsageEstimate)
  }

  /// Completes a record that was published before its payload: counts the payload, then writes the final header.
  mutating func complete(
    _ draft: borrowing FileDraft, from stream: RecordHeader, _ pending: borrowing PendingStore
  ) throws -> Completion {
    guard try draft.isInPlace(as: path.fileName) else { return .superseded }
    let exceeding: BlobStore.UsageEstimate?
    switch count(pending, over: .stream) {
    case .refused(let usage): return .mustWait(usage)
    case .counted(let usage): exceeding = usage
    }
    var isComplete = false
    defer { hold.endCount(from: .stream, to: pending.size, isInPlace: isComplete) }
    try records.complete(
      draft, as: path, from: stream, to: pending.header, level(concernsLock: pending.header.isLocked), &hold)
    isComplete = true
    return .done(exceeding: exceeding)
  }

  /// Rewrites the header of an incomplete record.
  func rewriteStream(_ draft: borrowing FileDraft, to header: RecordHeader) throws {
    try header.withEncodedBytes { bytes throws(FileError) in try draft.file.write(bytes, at: 0) }
  }

  /// Removes an incomplete record, unless it has been superseded.
  mutating func withdrawStream(_ draft: borrowing FileDraft) throws {
    guard try draft.isInPlace(as: path.fileName) else { return }
    try records.withdraw(path, .stream, .none, in: draft.subdirectory.directory, &hold)
  }
}
