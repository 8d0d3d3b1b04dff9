internal import BlobRecord
internal import Posix
internal import Synchronization

/// A record that is ready for publication: a written file, or bytes that will be written into a pack.
///
/// `Records.draft` decides which of them a new record becomes. `KeyTransaction` publishes it while the key is held.
enum Draft: ~Copyable {
  case file(FileDraft)
  case packed(PackedDraft, in: PackRecords)

  /// A Boolean value that indicates whether the draft can wait for room. A packed one is made again after the wait,
  /// because the directory may no longer pack records, or may have other packs.
  var canWait: Bool {
    switch self {
    case .file: true
    case .packed: false
    }
  }

  /// Calls one of two closures with the draft and its engine, which it may change.
  @inline(__always)
  private mutating func change<Result>(
    file: (inout FileDraft) throws -> Result, packed: (inout PackedDraft, inout PackRecords) throws -> Result
  ) throws -> Result {
    switch consume self {
    case .file(var draft):
      let result = Swift.Result { try file(&draft) }
      self = .file(draft)
      return try result.get()
    case .packed(var draft, var packs):
      let result = Swift.Result { try packed(&draft, &packs) }
      self = .packed(draft, in: packs)
      return try result.get()
    }
  }

  /// Syncs the draft before the key is held, as far as the level requires it.
  mutating func prepare(_ level: BlobStore.Durability.Level, _ records: Records) throws {
    try change {
      try records.files.prepare(&$0, level)
    } packed: {
      $1.prepare(&$0, level)
    }
  }

  /// Performs the remaining steps after the key is released. Throws `Published`.
  func finish(_ level: BlobStore.Durability.Level, at path: RecordPath, of open: OpenRoot) throws {
    switch self {
    case .file(let draft): try draft.finish(level, at: path, of: open)
    case .packed(_, let packs): _ = packs.growIfDue()
    }
  }
}

// MARK: - Steps of a transaction

extension Draft {
  /// Returns the durability of a commit without a lookup of the name, or `nil` if the name must be looked up first.
  ///
  /// A lookup wastes a system call for a new key, and an attempt without a lookup wastes one for an existing key. A new
  /// file always attempts it; a recycled file does so if the last store replaced no record, unless the store keeps
  /// locks: it may have to rewrite its header after the attempt, and a recycled file must not be written then.
  func levelWithoutLookup(
    _ pending: borrowing PendingStore, _ transaction: borrowing KeyTransaction
  ) throws -> BlobStore.Durability.Level? {
    switch self {
    case .packed: return nil
    case .file(let file):
      if file.isRecycled {
        let isLikely = !transaction.core.lastStoreReplaced.load(ordering: .relaxed)
        guard !pending.locks.keepsLocks, isLikely, file.isStillSafe else { return nil }
      }
      guard try !transaction.records.mayBePacked(transaction.path, of: transaction.open) else { return nil }
      return max(transaction.level(concernsLock: pending.header.isLocked), file.syncedLevel)
    }
  }

  /// Returns the record, in either engine, that the draft replaces, or `nil` if none exists. Throws `foreignFile` for a
  /// file that must not be replaced.
  func predecessor(_ transaction: borrowing KeyTransaction, by judge: RecordJudge) throws -> FoundRecord? {
    switch self {
    case .file(let file):
      let found = try transaction.records.recordToReplace(
        at: transaction.path, in: file.subdirectory.directory, of: transaction.open, by: judge)
      transaction.core.lastStoreReplaced.store(found != nil, ordering: .relaxed)
      return found
    case .packed(_, let packs): return try transaction.records.recordToReplace(transaction, packs, by: judge)
    }
  }

  /// Writes a header that has changed, and syncs a file for a level. Returns `false` if the file must be synced while
  /// the key is released.
  mutating func isReady(
    for level: BlobStore.Durability.Level, _ header: RecordHeader, isChanged: Bool
  ) throws -> Bool {
    try change {
      if isChanged { try $0.rewrite(header) }
      return try $0.isReady(for: level, header)
    } packed: { _, _ in
      // It is written with its final header, once it is counted.
      true
    }
  }

  mutating func commit(
    _ header: RecordHeader, over found: borrowing FoundRecord?, isSureOfName: Bool,
    _ level: BlobStore.Durability.Level, _ transaction: inout KeyTransaction
  ) throws -> Bool {
    let (path, open) = (transaction.path, transaction.open)
    return try change {
      try transaction.records.commit(
        &$0, header, as: path, replacing: found, isSureOfName: isSureOfName, level, of: open, &transaction.hold)
    } packed: {
      try $1.commit(
        &$0, header, as: path, replacing: found, isSureOfName: isSureOfName, level, of: open, &transaction.hold)
    }
  }

  /// Removes the record that the draft has published under the same hold.
  mutating func withdraw(
    _ size: RecordSize, _ level: BlobStore.Durability.Level, _ transaction: inout KeyTransaction
  ) throws {
    let path = transaction.path
    try change {
      try transaction.records.withdraw(path, size, level, in: $0.subdirectory.directory, &transaction.hold)
    } packed: {
      if let address = $0.address {
        _ = try $1.remove(path, at: address.rawValue, level, counting: size, &transaction.hold)
      }
    }
  }
}

// MARK: - Attempts

/// The loop in which a record's draft is made and published, until an attempt succeeds or no other way is left.
///
/// All stores, streams, batches and moves of records between the engines use it.
struct DraftLoop {
  /// The state of an attempt, from which the loop decides how to continue after an error.
  struct Attempt {
    fileprivate(set) var ways: DraftAttempts
    /// The kind of the draft, or `nil` as long as none is made.
    var kind: DraftAttempts.Kind?
    /// The size in bytes for which room is made on a full volume.
    var byteCount: Int64
  }

  private let records: Records
  private var attempt: Attempt

  init(_ records: Records, _ ways: DraftAttempts, byteCount: Int64 = 0) {
    self.records = records
    attempt = Attempt(ways: ways, kind: nil, byteCount: byteCount)
  }

  /// Makes attempts until one has a result.
  ///
  /// - Parameters:
  ///   - path: The path of the record, in the arrangement of any directory.
  ///   - room: The means to free space.
  ///   - body: A closure that makes an attempt, and returns `nil` to request another one.
  /// - Throws: The error after which another attempt makes no sense.
  mutating func run<Result: ~Copyable>(
    at path: RecordPath, _ room: some RoomMaking, _ body: (_ attempt: inout Attempt) throws -> Result?
  ) throws -> Result {
    while true {
      attempt.kind = nil
      let rescues = room.rescueCount
      do {
        if let result = try body(&attempt) { return result }
      } catch {
        try prepare(after: error, at: path, room, rescues)
      }
    }
  }

  /// Prepares another attempt, or rethrows the error if none makes sense.
  private mutating func prepare(
    after error: any Error, at path: RecordPath, _ room: some RoomMaking, _ rescues: Int
  ) throws {
    let root = records.core.root
    let isPacked = attempt.kind == .packed
    switch attempt.ways.step(after: error, of: attempt.kind, refusesUnnamed: root.files.refusesUnnamedFiles) {
    case .again: break
    case .refuseBin: try records.files.supply.refuseBin(error)
    case .growIndex:
      guard let open = try root.opened(), try records.packs(of: open)?.growIfDue() == true else {
        return attempt.ways.refusePacks()
      }
    case .lookAgain:
      if let open = try root.opened() { open.forgetSubdirectory(open.placed(path).subdirectory) }
      _ = try root.forgetIfReplacedNow()
    case .makeRoom:
      let byteCount = isPacked ? Int64(PackLayout.chunkByteCount) : attempt.byteCount
      if room.makesRoom(for: byteCount, of: path.digest, after: rescues) { return }
      // A file needs less space than a chunk. If the file does not fit either, that error is reported.
      guard isPacked else { throw error }
      attempt.ways.refusePacks()
    case .giveUp: throw error
    }
  }
}

/// The means to free space on a full volume.
protocol RoomMaking {
  /// The number of collections so far that made room on a full volume.
  var rescueCount: Int { get }

  /// Frees space for a record, except for the old blob of the digest. Returns whether another attempt makes sense.
  ///
  /// - Parameter rescues: The `rescueCount` before the failed attempt.
  func makesRoom(for byteCount: Int64, of digest: UInt64, after rescues: Int) -> Bool
}

/// Frees no space, because a collection could wait for the key that the caller holds.
struct NoRoom: RoomMaking {
  var rescueCount: Int { 0 }

  func makesRoom(for _: Int64, of _: UInt64, after _: Int) -> Bool { false }
}
