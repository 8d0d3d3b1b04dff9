internal import BlobRecord
internal import Logging
internal import Posix
internal import Synchronization

// Stores of packed records, and what all changes are made of. Each is made under the key's hold, by the steps of Spec/Packs.md.

/// What a record consists of behind its header, lent for as long as it is stored.
@safe struct PackedBody {
  let payload: UnsafeRawBufferPointer
  /// The extension; empty for none.
  let tail: UnsafeRawBufferPointer

  init(payload: UnsafeRawBufferPointer, tail: UnsafeRawBufferPointer) {
    unsafe (self.payload, self.tail) = (payload, tail)
  }

  /// - Parameter bytes: the payload, then the extension.
  init(_ bytes: UnsafeRawBufferPointer, payload count: Int) {
    unsafe payload = UnsafeRawBufferPointer(rebasing: bytes[..<count])
    unsafe tail = UnsafeRawBufferPointer(rebasing: bytes[count...])
  }
}

/// What a change of a packed record means for its readers.
struct PackedChange {
  /// False if a load finds the same payload and extension as before.
  let changesPayload: Bool
  /// Whether the time of use stays, also one that a load notes meanwhile.
  let keepsUse: Bool

  static let store = PackedChange(changesPayload: true, keepsUse: false)
  /// The record lies elsewhere, and is the same.
  static let move = PackedChange(changesPayload: false, keepsUse: true)
}

extension PackRecords {
  /// Sets room aside for a record whose key is held.
  ///
  /// - Returns: nil if it cannot be packed, all packs are full, or no sequence is left.
  mutating func room(for header: RecordHeader, _ name: RecordPath, isDurable: Bool) throws -> PackRoom? {
    let (payload, tail) = (Int(clamping: header.payloadSize), Int(header.extensionEnd ?? 0))
    // Packs are removed only while no key is held. Those of an index that is in force now stay until this change has ended.
    if !packs.isInForce { try follow() }
    guard hasSequences,
      let byteCount = PackLayout.recordByteCount(name: name.fileName.utf8.count, payload: payload, tail: tail),
      PackedHeader(header, nameDigest: name.digest, nameByteCount: name.fileName.utf8.count, sequence: 0) != nil
    else { return nil }
    return try packs.files.room(
      for: byteCount, of: header, in: ChunkClass(ttl: header.ttl, isDurable: isDurable),
      owner: try control.session.token(in: control), sequence: control.packSequence)
  }

  /// Puts a record into its room and publishes it.
  ///
  /// - Parameter predecessor: what it takes the place of.
  /// - Throws: `IndexIsFull`; `FileError`. Nothing is changed then.
  mutating func commit(
    _ header: RecordHeader, _ body: PackedBody, as name: RecordPath, in room: borrowing PackRoom,
    replacing predecessor: PackedPredecessor, _ level: BlobStore.Durability.Level, _ effect: PackedChange,
    _ hold: inout KeyHold
  ) throws {
    announce(room, predecessor, hold)
    do {
      try write(header, body, as: name, in: room)
      if level > .none { try synchronize(room) }
    } catch {
      try finish(&hold)
      throw error
    }
    try publishWritten(header, as: name, in: room, replacing: predecessor, level, effect, &hold)
  }

  /// Says in the stripe that a record is about to be written. The process that takes the stripe from a
  /// dead one marks the record as dead.
  func announce(_ room: borrowing PackRoom, _ predecessor: PackedPredecessor, _ hold: borrowing KeyHold) {
    hold.announce(.new, StripeIntent(predecessor.isFile ? .fromFile : .record, at: room.address.rawValue))
  }

  /// Publishes a record that was announced and written.
  ///
  /// - Throws: as `commit`.
  mutating func publishWritten(
    _ header: RecordHeader, as name: RecordPath, in room: borrowing PackRoom, replacing predecessor: PackedPredecessor,
    _ level: BlobStore.Durability.Level, _ effect: PackedChange, _ hold: inout KeyHold
  ) throws {
    let old = predecessor.address
    do {
      if let old { hold.announce(.old, StripeIntent(.record, at: old.rawValue)) }
      if effect.changesPayload { hold.beginPayloadChange(level) } else { hold.willChange(level) }
      try publish(room.byteCount, at: room.address, name, over: old, header.lastUpdate, keepsUse: effect.keepsUse)
      if predecessor.isFile { removeFile(name) }
    } catch let error as IndexIsFull {
      // No index leads to it: there is nothing to settle, and a growth goes on.
      try markDead(room.address)
      hold.announce(.old, nil)
      hold.announce(.new, nil)
      throw error
    } catch {
      try finish(&hold)
      throw error
    }
    let chunk = room.pack.entry(ofChunk: room.address.chunk)
    chunk.countLive(records: 1, bytes: room.byteCount)
    if header.ttl != 0 {
      chunk.noteExpiry(UInt64(clamping: header.expiry(defaultExpiration: core.defaultExpiration).seconds))
    }
    if let old { try markDead(old) }
    hold.announce(.old, nil)
    hold.announce(.new, nil)
  }

  /// Ends a change that has to last: a file that it, or an earlier one, has unlinked stays gone.
  ///
  /// A later change may be lost by a power cut that keeps its mark on this record. Such a file would count then.
  ///
  /// System calls: none where the stripe has no files, or no such directory is there; else those of a sync.
  func synchronizeUnlinks(
    of name: RecordPath, _ level: BlobStore.Durability.Level, _ hold: borrowing KeyHold
  ) throws {
    guard level > .none, !hold.hasNoFiles else { return }
    try core.recordSubdirectory(of: name, open)?.directory.synchronize()
  }

  /// After a failure, nothing more is written where it cannot be known to reach the medium.
  func synchronize(_ room: borrowing PackRoom) throws(FileError) {
    do {
      try room.pack.synchronize()
    } catch {
      packs.files.seal(room.chunkClass)
      throw error
    }
  }

  private func write(
    _ header: RecordHeader, _ body: PackedBody, as name: RecordPath, in room: borrowing PackRoom
  ) throws {
    try unsafe withUnsafeTemporaryAllocation(byteCount: room.byteCount, alignment: 8) { buffer in
      try unsafe encode(header, body, as: name, in: room, into: buffer)
      try room.pack.write(unsafe RawSpan(_unsafeBytes: UnsafeRawBufferPointer(buffer)), at: room.address)
    }
  }

  /// Makes a record's bytes, and gives it its sequence.
  ///
  /// - Parameter buffer: as long as the room.
  func encode(
    _ header: RecordHeader, _ body: PackedBody, as name: RecordPath, in room: borrowing PackRoom,
    into buffer: UnsafeMutableRawBufferPointer
  ) throws {
    // Under the key's hold: of two records of a key, the younger one has the higher sequence.
    let sequence = control.nextPackSequence()
    let address = room.address
    guard
      let packed = PackedHeader(
        header, nameDigest: name.digest, nameByteCount: name.fileName.utf8.count, sequence: sequence),
      let salt = room.pack.deadBits(ofChunk: address.chunk).salt(ofQuarter: address.quarter),
      packed.byteCount == buffer.count
    else { throw BlobStoreError(.internalInconsistency, "a chunk has no salt", path: packs.path(of: address)) }
    var bytes = unsafe MutableRawSpan(_unsafeBytes: buffer)
    unsafe name.fileName.withContiguousUTF8 {
      packed.encode(name: unsafe $0.span.bytes, at: address, salt: salt, into: &bytes)
    }
    func part(_ range: Range<Int>) -> UnsafeMutableRawBufferPointer {
      unsafe UnsafeMutableRawBufferPointer(rebasing: buffer[range])
    }
    unsafe part(packed.payloadRange).copyMemory(from: body.payload)
    unsafe part(packed.extensionRange).copyMemory(from: body.tail)
    let padding = unsafe part(packed.extensionRange.upperBound..<packed.byteCount)
    unsafe padding.initializeMemory(as: UInt8.self, repeating: 0)
  }

  /// The indexes in which a change is made, one after the other.
  ///
  /// - Returns: the one that is being filled, if one is, and the one in force.
  mutating func indexes() throws -> (growing: PackIndex?, inForce: PackIndex) {
    while true {
      // Before the index in force: the other way round, this one could come in force in between, and be missed.
      let growing = try packs.growingIndex()
      if packs.isInForce { return (growing, packs.index) }
      try follow()
    }
  }

  /// Exchanges the entry, in the index that is in force.
  mutating func publish(
    _ byteCount: Int, at address: PackAddress, _ name: RecordPath, over old: PackAddress?, _ update: UnixTime,
    keepsUse: Bool = false
  ) throws {
    let (control, time) = (control, IndexLayout.time(of: update))
    func publish(in index: PackIndex) -> PackIndex.Publication {
      control.willStep(.exchangeEntry)
      return index.publish(byteCount, at: address, name.digest, over: old, time: time, keepsTime: keepsUse)
    }
    while true {
      let (growing, inForce) = try indexes()
      if let growing, case .isFull = publish(in: growing) {
        // It is too small: its growth is begun again.
        control.settleGrowth()
        continue
      }
      switch publish(in: inForce) {
      // An index that was made anew meanwhile has found the record.
      case .isThere, .published(over: nil): break
      case .published(let replaced?): try countDead(replaced)
      case .isFull:
        _ = growing?.remove(name.digest, at: address)
        throw IndexIsFull()
      }
      atomicMemoryFence(ordering: .sequentiallyConsistent)
      if packs.isInForce { return }
    }
  }

  /// The record's file has lost to its record in a pack.
  func removeFile(_ name: RecordPath) {
    do {
      _ = try core.lookInSubdirectory(of: name, open) { try $0.unlink(name.fileName) ? true : nil }
    } catch {
      // The pack's record counts all the same.
      core.configuration.logger.warning("\(BlobStoreError(error, operation: "remove", key: nil))")
    }
  }

  func countDead(_ entry: IndexEntry) throws {
    let pack = try packs.files.pack(entry.address.pack)
    pack?.entry(ofChunk: entry.address.chunk).countLive(records: -1, bytes: -entry.byteCount)
  }

  func markDead(_ address: PackAddress) throws {
    guard let pack = try packs.files.pack(address.pack) else { return }
    control.willStep(.markDead)
    pack.deadBits(ofChunk: address.chunk).set(address, isDead: true)
  }
}
