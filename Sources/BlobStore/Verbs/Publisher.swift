internal import BlobRecord
internal import Posix
internal import Synchronization
internal import SystemPackage

/// Writes and publishes records, within the limits.
struct Publisher: RoomMaking {
  let core: StoreCore
  /// The enforcer of the limits, or `nil` if stores start no collections.
  let enforcer: LimitEnforcer?

  var rescueCount: Int { enforcer?.rescue.collections ?? 0 }

  /// Empties the recycling bin to make room for a file, or starts a collection that removes records.
  func makesRoom(for byteCount: Int64, of digest: UInt64, after rescues: Int) -> Bool {
    FileSupply(core: core).makesRoomByEmptyingBin()
      || enforcer?.makeRoomOnFullVolume(for: byteCount, of: digest, after: rescues) == true
  }

  /// Repeats a call until it finds enough space, or no more can be freed.
  func makingRoom<Result>(for byteCount: Int64, of digest: UInt64, _ body: () throws -> Result) throws -> Result {
    while true {
      let rescues = rescueCount
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
    var loop = DraftLoop(Records(core), ways, byteCount: pending.header.fileByteCount)
    return try unsafe (tail ?? []).withUnsafeBytes { bytes in
      let body = unsafe payload.map { unsafe PackedBody(payload: $0, tail: bytes) }
      return try loop.run(at: path, self) { attempt in
        let open = try madeRoot()
        let path = open.placed(path)
        var draft = try Records(core).draft(&pending, body, at: path, in: open, &attempt) { file, header in
          try write(file, &header)
          guard let tail else { return }
          // Only the extension is retried, because the source of the payload may not be readable again.
          let offset = header.fileByteCount - Int64(tail.count)
          try makingRoom(for: Int64(tail.count), of: path.digest) { try file.write(unsafe tail.span.bytes, at: offset) }
        }
        return try publish(&draft, &pending, &wait, at: path, of: open)
      }
    }
  }

  /// Creates a file with a temporary name that is written incrementally. It has a name from the start, because an
  /// unnamed file might be refused its name at the end, and a stream's data cannot be written again.
  ///
  /// In a directory that packs records, the file is created at the root. Its record may be packed at the end, and an
  /// empty subdirectory would be left.
  func makeDraft(_ header: RecordHeader, at path: RecordPath, for byteCount: Int64) throws -> PlacedDraft {
    var loop = DraftLoop(Records(core), DraftAttempts(mayRecycle: false, canWriteAgain: false), byteCount: byteCount)
    return try loop.run(at: path, self) { attempt in
      let open = try madeRoot()
      let path = open.placed(path)
      let name = open.packing?.bound == nil ? path.subdirectory : ""
      let supply = FileSupply(core: core)
      let draft = try supply.draft(for: header, at: path, attempt.ways, in: open.madeSubdirectory(name), of: open)
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
    let (path, open) = (placed.path, placed.root)
    return try placed.withDraft { draft in
      while true {
        if let receipt = try publish(&draft, &pending, &wait, at: path, of: open) { return receipt }
      }
    }
  }

  /// Moves a draft from the root to the subdirectory of its record, which is created if it is missing.
  private func moveToSubdirectory(_ placed: inout PlacedDraft) throws {
    guard placed.isAtRoot else { return }
    var loop = DraftLoop(Records(core), DraftAttempts(mayRecycle: false, canWriteAgain: true))
    try loop.run(at: placed.path, self) { _ in
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
    var loop = DraftLoop(Records(core), DraftAttempts(mayRecycle: false, canWriteAgain: true, mayPack: true))
    let path = placed.path
    return try unsafe body.withUnsafeBytes { bytes in
      let body = unsafe PackedBody(bytes, payload: Int(header.payloadSize))
      return try loop.run(at: path, self) { attempt -> StoreReceipt?? in
        let open = try madeRoot()
        let path = open.placed(path)
        guard var draft = try Records(core).packedDraft(pending.header, body, at: path, in: open, &attempt) else {
          return .some(nil)
        }
        guard let receipt = try publish(&draft, &pending, &wait, at: path, of: open) else { return nil }
        return .some(receipt)
      }
    }
  }

  /// Tries to publish a record until it succeeds, or returns `nil` if the draft cannot wait and must be made again.
  private func publish(
    _ draft: inout Draft, _ pending: inout PendingStore, _ wait: inout LimitEnforcer.Wait?, at path: RecordPath,
    of open: OpenRoot
  ) throws -> StoreReceipt? {
    enforcer?.willStore(path.digest)
    try draft.prepare(core.configuration.durability.level(concernsLock: pending.header.isLocked), Records(core))
    while true {
      switch try place(&draft, &pending, wait, at: path, of: open) {
      case .mustSync(let level): try draft.prepare(level, Records(core))
      case .mustWait(let usage):
        try enforcer?.waitForRoom(&wait, usage, for: pending.header.fileByteCount)
        guard draft.canWait else { return nil }
      case .done(let placed):
        // A stream is counted, and makes room, when it is committed.
        if !pending.isStream { didStore(pending.header, at: path, of: open, exceeding: placed.exceeding) }
        try draft.finish(placed.level, at: path, of: open)
        return StoreReceipt(header: pending.header, generation: placed.generation)
      }
    }
  }

  private func place(
    _ draft: inout Draft, _ pending: inout PendingStore, _ wait: LimitEnforcer.Wait?, at path: RecordPath,
    of open: OpenRoot
  ) throws -> KeyTransaction.Placement {
    pending.stopWaiting = stopWaiting(wait)
    var transaction = KeyTransaction(path, in: open, Records(core), try Records(core).hold(path.digest))
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
  let path: RecordPath
  let root: OpenRoot
  /// A Boolean value that indicates whether the draft must be moved to the record's subdirectory to be published.
  var isAtRoot: Bool

  mutating func withDraft<Result>(_ body: (inout Draft) throws -> Result) throws -> Result {
    let placed = consume self
    let (path, root, isAtRoot) = (placed.path, placed.root, placed.isAtRoot)
    var draft = Draft.file(placed.draft)
    let result = Swift.Result { try body(&draft) }
    switch consume draft {
    case .file(let file): self = PlacedDraft(draft: file, path: path, root: root, isAtRoot: isAtRoot)
    case .packed: preconditionFailure("a file has become a packed draft")
    }
    return try result.get()
  }
}
