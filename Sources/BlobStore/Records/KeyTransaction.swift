internal import BlobRecord
internal import Posix

/// A change of one key's record, from the moment in which the key is held until it is free again.
///
/// Both engines change records by these steps alone, in this order. A store checks its condition, looks up the record that it
/// replaces, takes over that record's locks, and decides how durable it must be. It is counted before its record can be seen, and
/// the count is taken back if the record does not get its place. The key's generation is odd from then on until this value ends,
/// which frees the key. In the end, a wipe that has begun meanwhile takes the record away again.
struct KeyTransaction: ~Copyable {
  let records: Records
  let open: OpenRoot
  let path: RecordPath
  var hold: KeyHold

  /// - Parameters:
  ///   - path: of the record in this directory.
  ///   - hold: of the path's key.
  init(_ path: RecordPath, in open: OpenRoot, _ records: Records, _ hold: consuming KeyHold) {
    self.records = records
    self.open = open
    self.path = path
    self.hold = hold
  }

  var core: StoreCore { records.core }

  /// How durable a change must be.
  func level(concernsLock: Bool) -> BlobStore.Durability.Level {
    core.configuration.durability.level(concernsLock: concernsLock)
  }
}

// MARK: - Placing a record

extension KeyTransaction {
  /// The outcome of one try to give a record its place.
  enum Placement {
    case done(Placed)
    /// The directory holds too much. The key must be free while the store waits.
    case mustWait(BlobStore.UsageEstimate)
    /// The record must be on the medium before it is published, which is not done while the key is held.
    case mustSync(BlobStore.Durability.Level)
  }

  /// A record that has its place.
  struct Placed {
    let level: BlobStore.Durability.Level
    /// What the directory holds, if that is more than may stay now, or is not known.
    let exceeding: BlobStore.UsageEstimate?
    /// The key's generation once the key is free; nil where there are none.
    let generation: UInt64?
  }

  /// Gives a record its place, unless there is no room for it below the limit, or it must be synced first.
  ///
  /// - Throws: `ConditionFailed`, with nothing stored; `Published` if the record has its place all the same.
  mutating func place<Draft: RecordDraft & ~Copyable>(
    _ draft: inout Draft, _ pending: inout PendingStore
  ) throws -> Placement {
    if let condition = pending.condition, !condition.holds(in: hold.history) { throw ConditionFailed() }
    // A try that fails, and is made again, changes the generation too.
    defer { pending.condition?.noteOwnChange(hold.generation) }
    if pending.hasLocksAsAsked, pending.condition?.isJudged != true, try draft.mayTryWithoutLookup(pending, self) {
      let level = max(level(concernsLock: pending.header.isLocked), draft.syncedLevel)
      if case .done(let usage) = try commit(&draft, pending, over: nil, nil, isSureOfName: false, level) {
        return try stay(&draft, pending, level, usage)
      }
      // Else a file has the name, or there is no room. A record that replaces another may take that one's room.
    }
    let judge = pending.condition?.isJudged == true ? core.judge(at: core.configuration.now()) : RecordJudge()
    let found = try draft.predecessor(self, by: judge)
    let before = Predecessor(found)
    let inheritance = try inherit(from: before, &pending)
    if inheritance.changesHeader { try draft.rewrite(pending.header) }
    guard try draft.isReady(for: inheritance.level, pending.header) else { return .mustSync(inheritance.level) }
    switch try commit(&draft, pending, over: found, before, isSureOfName: true, inheritance.level) {
    case .refused(let usage): return .mustWait(usage)
    case .done(let usage): return try stay(&draft, pending, inheritance.level, usage)
    // Another program, which does not hold the key, has put a file there since. It is looked up again, for a new file.
    case .nameIsTaken: throw UnfitForRecycling()
    }
  }

  /// Takes over the locks of the record that is replaced. They are counted anew on each try: between two, others lock and unlock.
  ///
  /// - Returns: how durable the store must be, and whether its header has changed.
  /// - Throws: `ConditionFailed`.
  func inherit(
    from before: Predecessor?, _ pending: inout PendingStore
  ) throws -> (level: BlobStore.Durability.Level, changesHeader: Bool) {
    if let condition = pending.condition, !condition.allows(before?.liveHeader) { throw ConditionFailed() }
    let refCount = pending.locks.refCount(replacing: before?.refCount ?? 0)
    let changesHeader = refCount != pending.header.refCount
    pending.header.refCount = refCount
    return (level(concernsLock: pending.header.isLocked || before?.size.isLocked ?? false), changesHeader)
  }

  /// Counts a store before its record has its place, unless there is no room below the limit. `KeyHold.endCount` must follow.
  ///
  /// - Parameter before: the size of the record that is replaced; nil for none.
  func count(_ pending: borrowing PendingStore, over before: RecordSize?) -> KeyHold.CountedAhead {
    if let stopWaiting = pending.stopWaiting {
      // A store that waits looks before it counts. A collection would make room for its short count too.
      if let usage = hold.usageBeyondBounds(from: before, to: pending.size, pending.limit) { return .refused(usage) }
      stopWaiting()
    }
    return hold.countAhead(from: before, to: pending.size, within: pending.limit)
  }

  private enum Commit {
    case done(exceeding: BlobStore.UsageEstimate?)
    case nameIsTaken
    /// There would be more than there may ever be.
    case refused(BlobStore.UsageEstimate)
  }

  private mutating func commit<Draft: RecordDraft & ~Copyable>(
    _ draft: inout Draft, _ pending: borrowing PendingStore, over found: borrowing FoundRecord?, _ before: Predecessor?,
    isSureOfName: Bool, _ level: BlobStore.Durability.Level
  ) throws -> Commit {
    let exceeding: BlobStore.UsageEstimate?
    switch count(pending, over: before?.size) {
    case .refused(let usage): return .refused(usage)
    case .counted(let usage): exceeding = usage
    }
    var isInPlace = false
    defer { hold.endCount(from: before?.size, to: pending.size, isInPlace: isInPlace) }
    do {
      isInPlace = try draft.commit(pending.header, over: found, before, isSureOfName: isSureOfName, level, &self)
    } catch let error as Published {
      isInPlace = true
      throw error
    }
    return isInPlace ? .done(exceeding: exceeding) : .nameIsTaken
  }

  /// Checks that a record which has just taken its place may stay there. A wipe holds no key of which it finds no record, so it
  /// may have begun, and passed the place, since the condition was checked. If so, the record is removed for it.
  ///
  /// - Throws: `ConditionFailed`.
  private mutating func stay<Draft: RecordDraft & ~Copyable>(
    _ draft: inout Draft, _ pending: borrowing PendingStore, _ level: BlobStore.Durability.Level,
    _ usage: BlobStore.UsageEstimate?
  ) throws -> Placement {
    guard let condition = pending.condition, !condition.stillHolds(in: hold.history) else {
      return .done(Placed(level: level, exceeding: usage, generation: hold.generation))
    }
    do {
      try draft.withdraw(pending.size, level, &self)
    } catch {
      throw Published(cause: error)
    }
    throw ConditionFailed()
  }
}

// MARK: - Removing

extension KeyTransaction {
  /// Removes the record that a lookup under this hold has found, in whichever engine it is, and a file beneath a packed one.
  ///
  /// - Parameters:
  ///   - recycling: whether its file may be overwritten later.
  ///   - erasing: whether a packed record is overwritten at once.
  ///   - directory: in which a file lies.
  ///   - condition: must hold for the removal.
  /// - Returns: what the removal is to be on the medium by; nil if the record is not there any more.
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

  /// Removes a record as `remove` does, as durably as that.
  ///
  /// - Returns: false if the record is not there any more.
  mutating func remove(
    _ found: borrowing FoundRecord, _ level: BlobStore.Durability.Level, recycling: Bool, erasing: Bool = false,
    in directory: borrowing Directory
  ) throws -> Bool {
    try records.remove(found, level, recycling: recycling, erasing: erasing, in: directory, of: open, &hold)
  }
}

// MARK: - Streams

extension KeyTransaction {
  /// The outcome of a try to complete a stream.
  enum Completion {
    case done(exceeding: BlobStore.UsageEstimate?)
    /// The record has lost its place.
    case overtaken
    /// There would be more than there may ever be.
    case mustWait(BlobStore.UsageEstimate)
  }

  /// Completes a record that has its place since before it was whole: counts its payload, then writes its last header.
  ///
  /// - Parameter stream: the header that it was published with.
  mutating func complete(
    _ draft: borrowing FileDraft, from stream: RecordHeader, _ pending: borrowing PendingStore
  ) throws -> Completion {
    guard try draft.isInPlace(as: path.fileName) else { return .overtaken }
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
}
