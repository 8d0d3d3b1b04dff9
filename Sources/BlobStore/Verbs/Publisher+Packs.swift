internal import BlobRecord
internal import Logging
internal import Posix

extension StoreCore {
  /// Whether a record with so large a payload may be small enough to be packed, as far as that is known before the directory
  /// is opened.
  func mayPack(payloadOf byteCount: Int64) -> Bool {
    guard configuration.mayPack else { return false }
    guard let packing = root.lastOpened?.packing ?? configuration.packing else {
      return byteCount <= BlobStore.Packing.largestBound
    }
    return packing.bound.map { byteCount <= $0 } ?? false
  }

  /// Whether a store packs the record.
  ///
  /// - Parameter open: a directory for a store, `Publisher.madeRoot`.
  func packs(_ header: RecordHeader, _ path: RecordPath, in open: OpenRoot) -> Bool {
    guard let bound = open.packing?.bound, !header.flags.contains(.streamIncomplete),
      let payload = Int(exactly: header.payloadSize),
      let byteCount = PackLayout.recordByteCount(
        name: path.fileName.utf8.count, payload: payload, tail: Int(header.extensionEnd ?? 0))
    else { return false }
    return byteCount <= bound
  }
}

extension Publisher {
  /// Puts a small record into a pack.
  ///
  /// - Parameter header: with size and checksum of the payload.
  /// - Returns: nil if the record has to be a file.
  /// - Throws: `ConditionFailed`.
  func publishPacked(
    _ payload: RawSpan, _ extendedData: Data?, for key: BlobKey, _ header: RecordHeader, locks: BlobStore.LockPolicy,
    if condition: StoreCondition?
  ) throws -> StoreReceipt? {
    guard core.mayPack(payloadOf: Int64(payload.byteCount)) else { return nil }
    let path = try core.path(for: key)
    var header = header
    header.keyDigest = path.digest
    let tail = try core.newExtension(of: key, at: path, extendedData)?.encoded ?? []
    header.extensionEnd = tail.isEmpty ? nil : UInt32(tail.count)
    return try publishPacked(payload, unsafe tail.span.bytes, header, at: path, locks: locks, if: condition)
  }

  /// Puts what a stream has written into a pack, if it has stayed small. Its file is left to go.
  ///
  /// - Returns: nil if the record has to be a file.
  func publishPacked(
    _ placed: borrowing PlacedDraft, _ header: RecordHeader, locks: BlobStore.LockPolicy,
    if condition: StoreCondition?
  ) throws -> StoreReceipt? {
    guard core.packs(header, placed.path, in: placed.root) else { return nil }
    let body = try placed.draft.file.bytes(in: RecordHeader.byteCount..<Int(header.fileByteCount))
    guard body.count == Int(header.fileByteCount) - RecordHeader.byteCount else { return nil }
    let (payload, span) = (Int(header.payloadSize), unsafe body.span.bytes)
    return try publishPacked(
      span.extracting(first: payload), span.extracting(droppingFirst: payload), header, at: placed.path, locks: locks,
      if: condition)
  }

  private func publishPacked(
    _ payload: RawSpan, _ tail: RawSpan, _ header: RecordHeader, at path: RecordPath, locks: BlobStore.LockPolicy,
    if condition: StoreCondition?
  ) throws -> StoreReceipt? {
    var condition = condition
    var wait: LimitEnforcer.Wait?
    defer { keeper?.stopAsking(&wait) }
    keeper?.willStore(path.digest)
    var remakesLeft = OpenRoot.removalsOutlasted
    while true {
      let rescues = keeper?.rescue.collections ?? 0
      do {
        let open = try madeRoot()
        guard core.packs(header, path, in: open) else { return nil }
        let path = open.placed(path)
        guard let control = try core.controlFiles.controlFile(of: open, makesIt: true),
          let packs = try core.packHolder.packs(of: open, control, makesThem: true)
        else { return nil }
        packs.prefetch(forChangeOf: path.digest)
        var records = PackRecords(packs, of: core, in: open)
        switch try place(&records, payload, tail, header, locks, at: path, of: open, if: &condition, &wait) {
        case .done(let header, let usage, let generation):
          didStore(header, at: path, of: open, exceeding: usage)
          _ = records.growIfDue()
          return StoreReceipt(header: header, generation: generation)
        case .mustWait(let usage): try keeper?.waitForRoom(&wait, usage, for: header.fileByteCount)
        case .needsFile: return nil
        }
      } catch is IndexIsFull {
        guard let open = try core.root.opened(), let packs = try core.records.packs(of: open), packs.growIfDue() else {
          return nil
        }
      } catch is Session.Obstacle {
        // Whoever takes the stripe for the file says what is in the way.
        return nil
      } catch let error as FileError where error.errno == .noSuchFileOrDirectory {
        // The root was removed before it was looked at again.
        guard remakesLeft > 0, try core.root.forgetIfReplacedNow() else { throw error }
        remakesLeft -= 1
      } catch let error as FileError where error.isLackOfRoom {
        // A file takes less room than a chunk. Where there is none for it either, that is told.
        guard makesRoom(for: Int64(PackLayout.chunkByteCount), of: path.digest, after: rescues) else { return nil }
      }
    }
  }

  /// Stores small blobs together, as far as that can be done at once.
  ///
  /// - Returns: what became of those that were published. The others have to be stored alone, which tells what is wrong with
  ///   them.
  func storeTogether(
    _ blobs: ArraySlice<(key: BlobKey, payload: Data)>, ttl: Duration?, locks: BlobStore.LockPolicy
  ) -> PackedBatch.Outcome {
    guard core.configuration.mayPack, blobs.count > 1 else { return PackedBatch.Outcome() }
    do {
      let open = try madeRoot()
      guard open.packing != .off else { return PackedBatch.Outcome() }
      let candidates = candidates(blobs, in: open, ttl: ttl, locks: locks)
      guard let control = try core.controlFiles.controlFile(of: open, makesIt: true),
        let packs = try core.packHolder.packs(of: open, control, makesThem: true)
      else { return PackedBatch.Outcome() }
      var batch = PackedBatch(self, PackRecords(packs, of: core, in: open), in: open)
      let outcome = try batch.store(candidates, locks: locks)
      // The keys are free by now: what they cause may need them.
      for record in outcome.stored { didStore(record.header, at: record.path, of: open, exceeding: record.exceeding) }
      _ = PackRecords(packs, of: core, in: open).growIfDue()
      return outcome
    } catch {
      // Nothing is published. Each blob's own store meets the failure again, or succeeds.
      return PackedBatch.Outcome()
    }
  }

  private func candidates(
    _ blobs: ArraySlice<(key: BlobKey, payload: Data)>, in open: OpenRoot, ttl: Duration?,
    locks: BlobStore.LockPolicy
  ) -> [PackedBatch.Candidate] {
    zip(blobs.indices, blobs).compactMap { index, blob in
      // What is wrong with a blob is told by its own store.
      guard core.mayPack(payloadOf: Int64(blob.payload.count)), let path = try? core.path(for: blob.key) else {
        return nil
      }
      return try? candidate(index, blob.key, blob.payload, open.placed(path), in: open, ttl: ttl, locks: locks)
    }
  }

  /// - Returns: nil for a blob that is not packed.
  private func candidate(
    _ index: Int, _ key: BlobKey, _ payload: Data, _ path: RecordPath, in open: OpenRoot, ttl: Duration?,
    locks: BlobStore.LockPolicy
  ) throws -> PackedBatch.Candidate? {
    try core.checkSize(Int64(payload.count))
    var header = try newHeader(ttl: ttl, locks: locks)
    header.payloadSize = UInt64(payload.count)
    header.payloadChecksum = CRC32.checksum(of: payload.bytes)
    header.keyDigest = path.digest
    let tail = try core.newExtension(of: key, at: path, nil)?.encoded ?? []
    header.extensionEnd = tail.isEmpty ? nil : UInt32(tail.count)
    guard core.packs(header, path, in: open) else { return nil }
    return PackedBatch.Candidate(index: index, path: path, header: header, payload: payload, tail: tail)
  }

  /// The outcome of one try to publish under the key's hold.
  private enum PackedPublication {
    case done(RecordHeader, exceeding: BlobStore.UsageEstimate?, generation: UInt64?)
    /// The directory holds too much.
    case mustWait(BlobStore.UsageEstimate)
    /// All packs are full.
    case needsFile
  }

  /// Holds the key and puts a record into a pack, unless the directory holds too much.
  ///
  /// The store is judged and counted before room is set aside for it: a store that is refused takes none.
  private func place(
    _ records: inout PackRecords, _ payload: RawSpan, _ tail: RawSpan,
    _ asked: RecordHeader, _ locks: BlobStore.LockPolicy, at path: RecordPath, of open: OpenRoot,
    if condition: inout StoreCondition?, _ wait: inout LimitEnforcer.Wait?
  ) throws -> PackedPublication {
    var hold = try core.hold(path.digest)
    if let condition, !condition.holds(in: hold.history) { throw ConditionFailed() }
    // A try that fails, and is made again, changes the generation too.
    defer { condition?.noteOwnChange(hold.generation) }
    let judge = condition?.judge == nil ? RecordJudge() : core.judge(at: core.configuration.now())
    let found = try recordToReplace(at: path, records, of: open, by: judge, hold)
    let before = Predecessor(found)
    if let condition, !condition.allows(before?.liveHeader) { throw ConditionFailed() }
    var header = asked
    header.refCount = locks.refCount(replacing: before?.refCount ?? 0)
    let concernsLock = header.isLocked || before?.size.isLocked ?? false
    let level = core.configuration.durability.level(concernsLock: concernsLock)
    let size = RecordSize(bytes: header.fileByteCount, isLocked: header.isLocked)
    let limit = keeper?.limit
    if let usage = stillWaits(&wait, from: before?.size, to: size, limit, hold) { return .mustWait(usage) }
    let exceeding: BlobStore.UsageEstimate?
    switch hold.countAhead(from: before?.size, to: size, within: limit) {
    case .refused(let usage): return .mustWait(usage)
    case .counted(let usage): exceeding = usage
    }
    var isInPlace = false
    defer { if !isInPlace { hold.count(from: size, to: before?.size) } }
    guard let room = try records.room(for: header, path, isDurable: header.isLocked || level > .none) else {
      return .needsFile
    }
    try records.commit(header, payload, tail, as: path, in: room, replacing: found, level, &hold)
    isInPlace = true
    try records.synchronizeUnlinks(of: path, level, hold)
    if let condition, !condition.stillHolds(in: hold.history) {
      // A wipe may have passed the place before.
      _ = try records.remove(path, at: room.address.rawValue, level, counting: size, &hold)
      throw ConditionFailed()
    }
    return .done(header, exceeding: exceeding, generation: hold.generation)
  }

  /// The record that a packed one replaces: in a pack, or a file.
  func recordToReplace(
    at path: RecordPath, _ records: PackRecords, of open: OpenRoot, by judge: RecordJudge,
    _ hold: borrowing KeyHold
  ) throws -> FoundRecord? {
    if let found = try records.find(path, by: judge) { return found }
    guard try core.mayHaveFile(path, in: open, hold) else { return nil }
    return try core.lookInSubdirectory(of: path, open) { directory in
      try recordToReplace(at: path, in: directory, of: open, by: judge)
    }
  }
}
