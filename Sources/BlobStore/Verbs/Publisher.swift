internal import BlobRecord
internal import Posix
internal import Synchronization
internal import SystemPackage

/// Writes and publishes records, within the limits.
struct Publisher {
  let core: StoreCore
  /// The enforcer of the limits, or `nil` if stores start no collections.
  let enforcer: LimitEnforcer?

  /// Empties the recycling bin to make room for a file, or starts a collection that removes records, except for the old
  /// blob of the digest. `rescues` is the number of such collections before the failed attempt. Returns whether another
  /// attempt makes sense.
  func makesRoom(for byteCount: Int64, of digest: UInt64, after rescues: Int) -> Bool {
    FileSupply(core: core).makesRoomByEmptyingBin()
      || enforcer?.makeRoomOnFullVolume(for: byteCount, of: digest, after: rescues) == true
  }

  /// Repeats a call until it finds enough space, or no more can be freed.
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

  @inline(__always)
  func pendingStore(_ header: RecordHeader, locks: BlobStore.LockPolicy, if condition: StoreCondition?) -> PendingStore
  {
    PendingStore(header, locks: locks, if: condition, within: enforcer?.limit)
  }

  /// Returns the directory, or creates it with settings that state its arrangement and packing.
  func madeRoot() throws -> OpenRoot {
    let open = try core.root.openedOrMade()
    if open.mustSayArrangement || open.packing == nil { try SettingsChange(core).sayWhatIsNew(in: open) }
    return open
  }

  /// Returns the directory for a control file. A new directory's settings are written first, unless the volume is full.
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
  private struct Attempt {
    var ways: DraftAttempts
    var kind: DraftAttempts.Kind?
    var byteCount: Int64
  }

  /// Makes attempts until one has a result, each in the directory that currently has the root's name and with the
  /// record's path in it. `body` returns `nil` to request another attempt. The error after which another attempt
  /// makes no sense is rethrown.
  private func attempting<Result: ~Copyable>(
    _ attempt: consuming Attempt, at path: consuming RecordPath,
    _ body: (_ open: OpenRoot, _ path: inout RecordPath, _ attempt: inout Attempt) throws -> Result?
  ) throws -> Result {
    while true {
      attempt.kind = nil
      let rescues = enforcer?.rescue.collections ?? 0
      do {
        let open = try madeRoot()
        // A draft is created in the record's subdirectory, so the places must be known before the key is held.
        if open.hasUnknownPlaces { _ = try core.controlFiles.controlFile(of: open, makesIt: true) }
        path = try core.resolved(path, in: open)
        if let result = try body(open, &path, &attempt) { return result }
      } catch {
        try prepare(&attempt, after: error, at: path, rescues)
      }
    }
  }

  /// Prepares another attempt, or rethrows the error if none makes sense.
  private func prepare(
    _ attempt: inout Attempt, after error: any Error, at path: RecordPath, _ rescues: Int
  ) throws {
    let isPacked = attempt.kind == .packed
    switch attempt.ways.step(after: error, of: attempt.kind, refusesUnnamed: core.root.files.refusesUnnamedFiles) {
    case .again: break
    case .refuseBin: try FileSupply(core: core).refuseBin(error)
    case .growIndex:
      guard let open = try core.root.opened(), try Records(core).packs(of: open)?.growIfDue() == true else {
        return attempt.ways.refusePacks()
      }
    case .lookAgain:
      try core.root.opened()?.forgetSubdirectory(path.subdirectory)
      _ = try core.root.forgetIfReplacedNow()
    case .makeRoom:
      let byteCount = isPacked ? Int64(PackLayout.chunkByteCount) : attempt.byteCount
      if makesRoom(for: byteCount, of: path.digest, after: rescues) { return }
      // A file needs less space than a chunk. If the file does not fit either, that error is reported.
      guard isPacked else { throw error }
      attempt.ways.refusePacks()
    case .giveUp: throw error
    }
  }
}

// MARK: - Publishing

extension Publisher {
  /// Stores a record in a pack if it is small, and otherwise in a file. Throws `ConditionFailed`.
  ///
  /// - Parameters:
  ///   - payload: The payload, valid for the call, or `nil` if the record must not be packed.
  ///   - write: A closure that fills the file, and may complete the header.
  func publish(
    _ key: BlobKey, _ pending: consuming PendingStore, extendedData: Data?, _ ways: DraftAttempts,
    packing payload: UnsafeRawBufferPointer? = nil, _ write: (borrowing OpenFile, inout RecordHeader) throws -> Void
  ) throws -> StoreReceipt {
    let path = try core.path(for: key)
    if core.configuration.format == .checksummed { pending.header.keyDigest = path.digest }
    let tail = try Records(core).newExtension(of: key, at: path, extendedData)?.encoded
    pending.header.extensionEnd = tail.map { UInt32($0.count) }
    // The wait continues while the record is written again, so that a collection knows that a store still waits.
    var wait: LimitEnforcer.Wait?
    defer { enforcer?.stopAsking(wait) }
    return try attempting(Attempt(ways: ways, byteCount: pending.header.fileByteCount), at: path) {
      open, path, attempt in
      if let payload = unsafe payload, let packs = try packs(for: pending.header, path, in: open, &attempt) {
        return try unsafe (tail ?? []).withUnsafeBytes { tail in
          let body = unsafe PackedBody(payload: payload, tail: tail)
          return try publish(body, in: packs, &pending, &wait, at: &path, of: open)
        }
      }
      let subdirectory = try open.madeSubdirectory(path.subdirectory)
      pending.forgetKeptLocks()
      var draft = try Records(core).draft(pending.header, for: path, attempt.ways, in: subdirectory, of: open)
      attempt.kind = draft.kind
      try draft.fill(&pending.header) { file, header in
        try write(file, &header)
        guard let tail else { return }
        // Only the extension is retried, because the source of the payload may not be readable again.
        let offset = header.fileByteCount - Int64(tail.count)
        try makingRoom(for: Int64(tail.count), of: path.digest) { try file.write(unsafe tail.span.bytes, at: offset) }
      }
      attempt.byteCount = pending.header.fileByteCount
      return try publish(&draft, &pending, &wait, at: &path, of: open)
    }
  }

  /// Creates a file with a temporary name that is written incrementally. It has a name from the start, because an
  /// unnamed file might be refused its name at the end, and a stream's data cannot be written again.
  ///
  /// In a directory that packs records, the file is created at the root. Its record may be packed at the end, and an
  /// empty subdirectory would be left.
  func makeDraft(_ header: RecordHeader, at path: RecordPath, for byteCount: Int64) throws -> PlacedDraft {
    let ways = DraftAttempts(mayRecycle: false, canWriteAgain: false)
    return try attempting(Attempt(ways: ways, byteCount: byteCount), at: path) { open, path, attempt in
      let name = open.packing?.bound == nil ? path.subdirectory : ""
      let subdirectory = try open.madeSubdirectory(name)
      let draft = try Records(core).draft(header, for: path, attempt.ways, in: subdirectory, of: open)
      return PlacedDraft(draft: draft, path: path, root: open, isAtRoot: name != path.subdirectory)
    }
  }

  /// Publishes or packs a written record. It cannot be written again, so a failure is final.
  func publish(
    _ placed: inout PlacedDraft, _ header: RecordHeader, locks: BlobStore.LockPolicy,
    if condition: StoreCondition? = nil
  ) throws -> StoreReceipt {
    var pending = pendingStore(header, locks: locks, if: condition)
    var wait: LimitEnforcer.Wait?
    defer { enforcer?.stopAsking(wait) }
    if let receipt = try pack(placed, &pending, &wait) { return receipt }
    try moveToSubdirectory(&placed)
    pending.forgetKeptLocks()
    while true {
      if let receipt = try publish(&placed.draft, &pending, &wait, at: &placed.path, of: placed.root) {
        return receipt
      }
    }
  }

  /// Moves a draft from the root to the subdirectory of its record, which is created if it is missing.
  private func moveToSubdirectory(_ placed: inout PlacedDraft) throws {
    guard placed.isAtRoot else { return }
    let ways = DraftAttempts(mayRecycle: false, canWriteAgain: true)
    try attempting(Attempt(ways: ways, byteCount: 0), at: placed.path) { _, _, _ in
      try placed.draft.move(to: placed.root.madeSubdirectory(placed.path.subdirectory))
    }
    placed.isAtRoot = false
  }

  /// Packs the data of a stream, whose file is discarded. Returns `nil` if the record must be stored as a file.
  private func pack(
    _ placed: borrowing PlacedDraft, _ pending: inout PendingStore, _ wait: inout LimitEnforcer.Wait?
  ) throws -> StoreReceipt? {
    let header = pending.header
    guard Records(core).belongsInPack(header, at: placed.path, in: placed.root) else { return nil }
    let body = try placed.draft.file.bytes(in: RecordHeader.byteCount..<Int(header.fileByteCount))
    guard body.count == Int(header.fileByteCount) - RecordHeader.byteCount else { return nil }
    let ways = DraftAttempts(mayRecycle: false, canWriteAgain: true, mayPack: true)
    let (payloadCount, path) = (Int(header.payloadSize), placed.path)
    return try unsafe body.withUnsafeBytes { bytes in
      let body = unsafe PackedBody(bytes, payload: payloadCount)
      return try attempting(Attempt(ways: ways, byteCount: 0), at: path) { open, path, attempt -> StoreReceipt?? in
        guard let packs = try packs(for: pending.header, path, in: open, &attempt) else { return .some(nil) }
        guard let receipt = try publish(body, in: packs, &pending, &wait, at: &path, of: open) else { return nil }
        return .some(receipt)
      }
    }
  }

  /// Returns the packs for a record, or `nil` if it must be stored as a file.
  private func packs(
    for header: RecordHeader, _ path: RecordPath, in open: OpenRoot, _ attempt: inout Attempt
  ) throws -> PackRecords? {
    guard attempt.ways.mayPack else { return nil }
    attempt.kind = .packed
    guard let packs = try Records(core).packs(for: header, at: path, in: open) else {
      attempt.kind = nil
      return nil
    }
    return packs
  }

  /// Tries to store a record in a pack, and returns `nil` to request another attempt.
  private func publish(
    _ body: PackedBody, in packs: consuming PackRecords, _ pending: inout PendingStore,
    _ wait: inout LimitEnforcer.Wait?,
    at path: inout RecordPath, of open: OpenRoot
  ) throws -> StoreReceipt? {
    packs.packs.prefetch(forChangeOf: path.digest)
    var draft = PackedDraft(body, in: packs)
    return try publish(&draft, &pending, &wait, at: &path, of: open)
  }

  /// Tries to publish a record until it succeeds, or returns `nil` if the draft cannot wait and must be made again.
  private func publish<Draft: RecordDraft & ~Copyable>(
    _ draft: inout Draft, _ pending: inout PendingStore, _ wait: inout LimitEnforcer.Wait?, at path: inout RecordPath,
    of open: OpenRoot
  ) throws -> StoreReceipt? {
    enforcer?.willStore(path.digest)
    try draft.prepare(core.configuration.durability.level(concernsLock: pending.header.isLocked))
    while true {
      switch try place(&draft, &pending, wait, at: &path, of: open) {
      case .mustSync(let level): try draft.prepare(level)
      case .mustWait(let usage):
        try enforcer?.waitForRoom(&wait, usage, for: pending.header.fileByteCount)
        guard Draft.canWait else { return nil }
      case .done(let placed):
        // A stream is counted, and makes room, when it is committed.
        if !pending.isStream { didStore(pending.header, at: path, of: open, exceeding: placed.exceeding) }
        try draft.finish(placed.level, at: path, of: open)
        return StoreReceipt(header: pending.header, generation: placed.generation)
      }
    }
  }

  private func place<Draft: RecordDraft & ~Copyable>(
    _ draft: inout Draft, _ pending: inout PendingStore, _ wait: LimitEnforcer.Wait?, at path: inout RecordPath,
    of open: OpenRoot
  ) throws -> KeyTransaction.Placement {
    pending.stopWaiting = stopWaiting(wait)
    var transaction = try Records(core).transaction(of: path, in: open, try Records(core).hold(path.digest))
    if transaction.path.subdirectory != path.subdirectory {
      try draft.move(to: transaction.path, in: open)
      open.removeSubdirectoryIfEmpty(path.subdirectory)
      path = transaction.path
    }
    return try transaction.place(&draft, &pending)
  }

  /// Returns the closure that a store calls after it has waited and found room.
  func stopWaiting(_ wait: LimitEnforcer.Wait?) -> (() -> Void)? {
    guard let enforcer, let wait else { return nil }
    return { enforcer.stopAsking(wait) }
  }

  /// Counts a stored record, and starts a collection if a limit is exceeded.
  func didStore(
    _ header: RecordHeader, at path: RecordPath, of open: OpenRoot, exceeding usage: BlobStore.UsageEstimate?
  ) {
    // This comes before the collection, whose walk would run concurrently with the creation of the file of uses.
    core.uses.countStore(
      of: path.digest, byteCount: Int64(clamping: header.payloadSize), at: core.configuration.now(), in: open)
    if let usage { enforcer?.start(usage) }
    enforcer?.didStore(header.fileByteCount)
  }
}

struct PlacedDraft: ~Copyable {
  var draft: FileDraft
  var path: RecordPath
  let root: OpenRoot
  /// A Boolean value that indicates whether the draft must be moved to the record's subdirectory to be published.
  var isAtRoot: Bool
}
