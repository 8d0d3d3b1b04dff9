internal import BlobRecord
internal import Logging
internal import Posix
internal import Synchronization

// Stores of packed records, and the steps of all changes. Each change holds its key: Spec/Packs.md, "A change".

/// The payload and the extension of a record, borrowed while the record is stored.
@safe struct PackedBody {
  let payload: UnsafeRawBufferPointer
  let tail: UnsafeRawBufferPointer

  init(payload: UnsafeRawBufferPointer, tail: UnsafeRawBufferPointer) {
    unsafe (self.payload, self.tail) = (payload, tail)
  }

  init(_ bytes: UnsafeRawBufferPointer, payload count: Int) {
    unsafe payload = UnsafeRawBufferPointer(rebasing: bytes[..<count])
    unsafe tail = UnsafeRawBufferPointer(rebasing: bytes[count...])
  }
}

/// The properties of a packed record that a change alters or preserves.
struct PackedChange {
  /// A Boolean value that indicates whether loads find another payload or extension afterwards.
  let changesPayload: Bool
  /// A Boolean value that indicates whether the time of use is preserved, including a concurrent one.
  let keepsUse: Bool

  static let store = PackedChange(changesPayload: true, keepsUse: false)
  /// The same record at another address.
  static let move = PackedChange(changesPayload: false, keepsUse: true)
}

extension PackRecords {
  /// Reserves space for a record, or returns `nil` if it cannot be packed or no space or sequence is left.
  mutating func room(for header: RecordHeader, _ name: RecordPath, isDurable: Bool) throws -> PackRoom? {
    let (payload, tail) = (Int(clamping: header.payloadSize), Int(header.extensionEnd ?? 0))
    // Packs are removed only while no key is held, so the packs of the index in force exist during this change.
    if !packs.isInForce { try follow() }
    guard hasSequences,
      let byteCount = PackLayout.recordByteCount(name: name.fileName.utf8.count, payload: payload, tail: tail),
      PackedHeader(header, nameDigest: name.digest, nameByteCount: name.fileName.utf8.count, sequence: 0) != nil
    else { return nil }
    return try packs.files.room(
      for: byteCount, of: header, in: ChunkClass(ttl: header.ttl, isDurable: isDurable),
      owner: try control.session.token(in: control), sequence: control.packSequence)
  }

  /// Writes a record into its reserved space and publishes it. Errors such as `IndexIsFull` leave nothing changed.
  mutating func commit(
    _ header: RecordHeader, _ body: PackedBody, as name: RecordPath, in room: borrowing PackRoom,
    replacing predecessor: PackedPredecessor, _ level: BlobStore.Durability.Level, _ effect: PackedChange,
    _ hold: inout KeyHold
  ) throws {
    announce(room, predecessor, level, effect, &hold)
    do {
      try write(header, body, as: name, in: room)
      if level > .none { try synchronize(room) }
    } catch {
      try finish(&hold, after: error, of: name, at: room.address)
    }
    try publishWritten(header, as: name, in: room, replacing: predecessor, effect, &hold)
  }

  /// Announces a record before it is written, so that the next holder of the stripe can finish the change.
  ///
  /// The key's generation changes first, because an index that is rebuilt in the meantime contains every record whose
  /// bytes are complete, so loads may find this one before it is published.
  func announce(
    _ room: borrowing PackRoom, _ predecessor: PackedPredecessor, _ level: BlobStore.Durability.Level,
    _ effect: PackedChange, _ hold: inout KeyHold
  ) {
    if effect.changesPayload { hold.beginPayloadChange(level) } else { hold.willChange(level) }
    hold.announce(.new, StripeIntent(predecessor.isFile ? .toPack : .record, at: room.address.rawValue))
  }

  /// Publishes a record that was announced and written. Throws the same errors as `commit`.
  mutating func publishWritten(
    _ header: RecordHeader, as name: RecordPath, in room: borrowing PackRoom, replacing predecessor: PackedPredecessor,
    _ effect: PackedChange, _ hold: inout KeyHold
  ) throws {
    let old = predecessor.address
    do {
      if let old { hold.announce(.old, StripeIntent(.record, at: old.rawValue)) }
      try publish(room.byteCount, at: room.address, name, over: old, header.lastUpdate, keepsUse: effect.keepsUse)
      if predecessor.isFile { removeFile(name) }
    } catch let error as IndexIsFull {
      // The index has no entry for the record, so there is nothing to finish, and a growth can continue.
      try markDead(room.address)
      hold.announce(.old, nil)
      hold.announce(.new, nil)
      throw error
    } catch {
      try finish(&hold, after: error, of: name, at: room.address)
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

  /// Syncs the directory of files that a durable change, or an earlier one, has unlinked. A power cut could otherwise
  /// undo a later change, preserve its dead bit, and make such a file current.
  ///
  /// System calls: `openat(2)` unless the directory is open, and a sync of the directory if it exists.
  func synchronizeUnlinks(of name: RecordPath, _ level: BlobStore.Durability.Level) throws {
    guard level > .none else { return }
    try core.recordSubdirectory(of: name, open)?.directory.synchronize()
    if let other = open.otherPlace(of: name) { try core.recordSubdirectory(of: other, open)?.directory.synchronize() }
  }

  /// Syncs a pack. After a failure, its chunk is sealed, because later writes might not reach the medium either.
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

  /// Encodes a record into a buffer that is as long as the reserved space, and issues its sequence.
  func encode(
    _ header: RecordHeader, _ body: PackedBody, as name: RecordPath, in room: borrowing PackRoom,
    into buffer: UnsafeMutableRawBufferPointer
  ) throws {
    // Issued under the key's hold, so the newer of two records of a key has the higher sequence.
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

  /// Returns the index that is being filled, if any, and the index in force, in the order in which to change them.
  mutating func indexes() throws -> (growing: PackIndex?, inForce: PackIndex) {
    while true {
      // The growing index is read first, because it could otherwise come into force in between and be missed.
      let growing = try packs.growingIndex()
      if packs.isInForce { return (growing, packs.index) }
      try follow()
    }
  }

  /// Exchanges the entry in all indexes, until the index is in force after the exchange.
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
        // The larger index is too small, so its growth is restarted.
        control.settleGrowth()
        continue
      }
      switch publish(in: inForce) {
      // An index that was rebuilt concurrently already contains the record.
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

  func removeFile(_ name: RecordPath) {
    do {
      _ = try core.lookUpInSubdirectory(of: name, open) { try $0.unlink(name.fileName) ? true : nil }
    } catch {
      // The packed record is current even if the file cannot be removed.
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
