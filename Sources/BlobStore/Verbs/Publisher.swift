internal import BlobRecord
internal import Posix
internal import Synchronization
internal import SystemPackage

/// Writes records and puts them in their places, within the limits.
struct Publisher {
  let core: StoreCore
  /// nil where stores start no collections.
  let enforcer: LimitEnforcer?

  /// Makes room for a file: the recycling bin is emptied first, then a collection removes records.
  ///
  /// - Parameters:
  ///   - byteCount: of the file, as far as it is known.
  ///   - digest: of the record, whose old blob must not be removed for the room.
  ///   - rescues: collections that had been made for want of room when it was tried last.
  /// - Returns: whether another try is worth it.
  func makesRoom(for byteCount: Int64, of digest: UInt64, after rescues: Int) -> Bool {
    core.supply.makesRoomByEmptyingBin()
      || enforcer?.makeRoomOnFullVolume(for: byteCount, of: digest, after: rescues) == true
  }

  /// Runs a call again and again until it finds room, or none can be made.
  func makingRoom<Result>(for byteCount: Int64, of digest: UInt64, _ body: () throws -> Result) throws -> Result {
    while true {
      let rescues = enforcer?.rescue.collections ?? 0
      do {
        return try body()
      } catch let error as FileError where error.isLackOfRoom {
        guard makesRoom(for: byteCount, of: digest, after: rescues) else { throw error }
      }
    }
  }

  /// A store that has not begun.
  @inline(__always)
  func pendingStore(_ header: RecordHeader, locks: BlobStore.LockPolicy, if condition: StoreCondition?) -> PendingStore
  {
    PendingStore(header, locks: locks, if: condition, within: enforcer?.limit)
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
}

// MARK: - Attempts

extension Publisher {
  /// An attempt to store a record.
  private struct Attempt {
    /// The ways that are open.
    var ways: DraftAttempts
    /// The way that is tried; nil before anything is made.
    var kind: DraftAttempts.Kind?
    /// Of the file, as far as it is known.
    var byteCount: Int64
  }

  /// Makes one attempt after another until one has a result, each in the directory that has the name by then.
  ///
  /// - Parameters:
  ///   - path: of the record, by the arrangement of any directory.
  ///   - body: makes an attempt. Its path is the record's in that directory. It answers nil for another attempt.
  /// - Throws: the error after which no other attempt is worth it.
  private func attempting<Result: ~Copyable>(
    _ attempt: consuming Attempt, at path: consuming RecordPath,
    _ body: (_ open: OpenRoot, _ path: RecordPath, _ attempt: inout Attempt) throws -> Result?
  ) throws -> Result {
    while true {
      attempt.kind = nil
      let rescues = enforcer?.rescue.collections ?? 0
      do {
        let open = try madeRoot()
        path = open.placed(path)
        if let result = try body(open, path, &attempt) { return result }
      } catch {
        try prepare(&attempt, after: error, at: path, rescues)
      }
    }
  }

  /// Does what another attempt needs.
  ///
  /// - Parameter rescues: collections that had been made for want of room before the attempt that failed.
  /// - Throws: the error, where no other attempt is worth it.
  private func prepare(
    _ attempt: inout Attempt, after error: any Error, at path: RecordPath, _ rescues: Int
  ) throws {
    let isPacked = attempt.kind == .packed
    switch attempt.ways.step(after: error, of: attempt.kind, refusesUnnamed: core.root.files.refusesUnnamedFiles) {
    case .again: break
    case .refuseBin: try core.supply.refuseBin(error)
    case .growIndex:
      guard let open = try core.root.opened(), try core.records.packs(of: open)?.growIfDue() == true else {
        return attempt.ways.refusePacks()
      }
    case .lookAgain:
      if !isPacked { try core.root.opened()?.forgetSubdirectory(path.subdirectory) }
      // Packs are missing only where their directory is.
      guard try core.root.forgetIfReplacedNow() || !isPacked else { throw error }
    case .makeRoom:
      let byteCount = isPacked ? Int64(PackLayout.chunkByteCount) : attempt.byteCount
      if makesRoom(for: byteCount, of: path.digest, after: rescues) { return }
      // A file takes less room than a chunk. Where there is none for it either, that is told.
      guard isPacked else { throw error }
      attempt.ways.refusePacks()
    case .giveUp: throw (error as? Published)?.cause ?? error
    }
  }
}

// MARK: - Publishing

extension Publisher {
  /// Stores a record: in a pack if it is small enough, else in a file that is written beside its place.
  ///
  /// - Parameters:
  ///   - pending: the header, without the fields that the key decides.
  ///   - extendedData: lies behind the payload.
  ///   - ways: those that may be tried.
  ///   - payload: valid for the call; nil where the record is not to be packed.
  ///   - write: fills the file, and may complete the header.
  /// - Throws: `ConditionFailed`.
  func publish(
    _ key: BlobKey, _ pending: consuming PendingStore, extendedData: Data?, _ ways: DraftAttempts,
    packing payload: UnsafeRawBufferPointer? = nil, _ write: (borrowing OpenFile, inout RecordHeader) throws -> Void
  ) throws -> StoreReceipt {
    let path = try core.path(for: key)
    if core.configuration.format == .checksummed { pending.header.keyDigest = path.digest }
    let tail = try core.newExtension(of: key, at: path, extendedData)?.encoded
    pending.header.extensionEnd = tail.map { UInt32($0.count) }
    // Kept while the record is written again, so that a collection does not end as if no store waited for room.
    var wait: LimitEnforcer.Wait?
    defer { enforcer?.stopAsking(&wait) }
    return try attempting(Attempt(ways: ways, byteCount: pending.header.fileByteCount), at: path) {
      open, path, attempt in
      if let payload = unsafe payload, let packs = try packs(for: pending.header, path, in: open, &attempt) {
        return try unsafe (tail ?? []).withUnsafeBytes { tail in
          let body = unsafe PackedBody(payload: payload, tail: tail)
          return try publish(body, in: packs, &pending, &wait, at: path, of: open)
        }
      }
      let subdirectory = try open.madeSubdirectory(path.subdirectory)
      pending.forgetKeptLocks()
      var draft = try core.records.draft(pending.header, for: path, attempt.ways, in: subdirectory, of: open)
      attempt.kind = draft.kind
      try draft.fill(&pending.header) { file, header in
        try write(file, &header)
        guard let tail else { return }
        // The payload may have come from where it cannot be read again.
        let offset = header.fileByteCount - Int64(tail.count)
        try makingRoom(for: Int64(tail.count), of: path.digest) { try file.write(unsafe tail.span.bytes, at: offset) }
      }
      attempt.byteCount = pending.header.fileByteCount
      return try publish(&draft, &pending, &wait, at: path, of: open)
    }
  }

  /// Makes a file that is written to by and by, under a temporary name.
  ///
  /// A file without a name may be refused its name in the end, and what a stream has written cannot be written again.
  ///
  /// - Parameter byteCount: of the file, as far as it is known.
  func makeDraft(_ header: RecordHeader, at path: RecordPath, for byteCount: Int64) throws -> PlacedDraft {
    let ways = DraftAttempts(mayRecycle: false, canWriteAgain: false)
    return try attempting(Attempt(ways: ways, byteCount: byteCount), at: path) { open, path, attempt in
      let subdirectory = try open.madeSubdirectory(path.subdirectory)
      let draft = try core.records.draft(header, for: path, attempt.ways, in: subdirectory, of: open)
      return PlacedDraft(draft: draft, path: path, root: open)
    }
  }

  /// Puts a record that is written into its place, or into a pack if it has stayed small. It cannot be written again, so a
  /// failure is the last.
  func publish(
    _ placed: inout PlacedDraft, _ header: RecordHeader, locks: BlobStore.LockPolicy,
    if condition: StoreCondition? = nil
  ) throws -> StoreReceipt {
    var pending = pendingStore(header, locks: locks, if: condition)
    var wait: LimitEnforcer.Wait?
    defer { enforcer?.stopAsking(&wait) }
    do {
      if let receipt = try pack(placed, &pending, &wait) { return receipt }
      pending.forgetKeptLocks()
      while true {
        if let receipt = try publish(&placed.draft, &pending, &wait, at: placed.path, of: placed.root) {
          return receipt
        }
      }
    } catch let error as Published {
      throw error.cause
    }
  }

  /// Puts what a stream has written into a pack. Its file is left to go.
  ///
  /// - Returns: nil if the record has to be a file.
  private func pack(
    _ placed: borrowing PlacedDraft, _ pending: inout PendingStore, _ wait: inout LimitEnforcer.Wait?
  ) throws -> StoreReceipt? {
    let header = pending.header
    guard core.packs(header, placed.path, in: placed.root) else { return nil }
    let body = try placed.draft.file.bytes(in: RecordHeader.byteCount..<Int(header.fileByteCount))
    guard body.count == Int(header.fileByteCount) - RecordHeader.byteCount else { return nil }
    let ways = DraftAttempts(mayRecycle: false, canWriteAgain: true, mayPack: true)
    let (payloadCount, path) = (Int(header.payloadSize), placed.path)
    return try unsafe body.withUnsafeBytes { bytes in
      let body = unsafe PackedBody(bytes, payload: payloadCount)
      return try attempting(Attempt(ways: ways, byteCount: 0), at: path) { open, path, attempt -> StoreReceipt?? in
        guard let packs = try packs(for: pending.header, path, in: open, &attempt) else { return .some(nil) }
        guard let receipt = try publish(body, in: packs, &pending, &wait, at: path, of: open) else { return nil }
        return .some(receipt)
      }
    }
  }

  /// The packs that a record is stored in; nil if it has to be a file.
  private func packs(
    for header: RecordHeader, _ path: RecordPath, in open: OpenRoot, _ attempt: inout Attempt
  ) throws -> PackRecords? {
    guard attempt.ways.mayPack, core.packs(header, path, in: open) else { return nil }
    attempt.kind = .packed
    guard let packs = try core.madePacks(of: open) else {
      attempt.kind = nil
      return nil
    }
    return packs
  }

  /// Makes an attempt to store a record in a pack.
  ///
  /// - Returns: nil if another one is to be made.
  private func publish(
    _ body: PackedBody, in packs: consuming PackRecords, _ pending: inout PendingStore,
    _ wait: inout LimitEnforcer.Wait?,
    at path: RecordPath, of open: OpenRoot
  ) throws -> StoreReceipt? {
    packs.packs.prefetch(forChangeOf: path.digest)
    var draft = PackedDraft(body, in: packs)
    return try publish(&draft, &pending, &wait, at: path, of: open)
  }

  /// Tries to give a record its place until it has that, or cannot wait for it as it is.
  ///
  /// - Returns: nil if the record has to be made anew.
  private func publish<Draft: RecordDraft & ~Copyable>(
    _ draft: inout Draft, _ pending: inout PendingStore, _ wait: inout LimitEnforcer.Wait?, at path: RecordPath,
    of open: OpenRoot
  ) throws -> StoreReceipt? {
    enforcer?.willStore(path.digest)
    try draft.prepare(core.configuration.durability.level(concernsLock: pending.header.isLocked))
    while true {
      switch try place(&draft, &pending, wait, at: path, of: open) {
      case .mustSync(let level): try draft.prepare(level)
      case .mustWait(let usage):
        try enforcer?.waitForRoom(&wait, usage, for: pending.header.fileByteCount)
        guard Draft.canWait else { return nil }
      case .done(let placed):
        // A stream is counted, and makes room, with its commit.
        if !pending.isStream { didStore(pending.header, at: path, of: open, exceeding: placed.exceeding) }
        try draft.finish(placed.level, at: path, of: open)
        return StoreReceipt(header: pending.header, generation: placed.generation)
      }
    }
  }

  /// Holds the key for one try.
  private func place<Draft: RecordDraft & ~Copyable>(
    _ draft: inout Draft, _ pending: inout PendingStore, _ wait: LimitEnforcer.Wait?, at path: RecordPath,
    of open: OpenRoot
  ) throws -> KeyTransaction.Placement {
    pending.stopWaiting = stopWaiting(wait)
    var transaction = KeyTransaction(path, in: open, core.records, try core.hold(path.digest))
    return try transaction.place(&draft, &pending)
  }

  /// What a store calls that has waited and found room.
  func stopWaiting(_ wait: LimitEnforcer.Wait?) -> (() -> Void)? {
    guard let enforcer, let wait else { return nil }
    return {
      var wait: LimitEnforcer.Wait? = wait
      enforcer.stopAsking(&wait)
    }
  }

  /// Counts a record that was stored, and starts a collection where it is one too many.
  func didStore(
    _ header: RecordHeader, at path: RecordPath, of open: OpenRoot, exceeding usage: BlobStore.UsageEstimate?
  ) {
    // First, as it may make the file of uses: a collection that is started would walk beside that.
    core.countStore(of: path.digest, byteCount: Int64(clamping: header.payloadSize), in: open)
    if let usage { enforcer?.start(usage) }
    enforcer?.didStore(header.fileByteCount)
  }
}

/// A draft, the place that its record will have, and the directory of both.
struct PlacedDraft: ~Copyable {
  var draft: FileDraft
  let path: RecordPath
  let root: OpenRoot
}
