internal import BlobRecord
internal import Logging
internal import Posix
internal import Synchronization

// Changes of packed records. Each is made under the key's hold, by the steps of Spec/Packs.md.

/// The index has no room for another name, so its record has to be a file.
struct IndexIsFull: Error {}

extension PackRecords {
  /// Sets room aside for a record.
  ///
  /// - Returns: nil if it cannot be packed, all packs are full, or the word of the sequence is damaged.
  func room(for header: RecordHeader, _ name: RecordPath, isDurable: Bool) throws -> PackRoom? {
    let (payload, tail) = (Int(clamping: header.payloadSize), Int(header.extensionEnd ?? 0))
    guard control.packSequence >> PackedHeader.sequenceBitCount == 0,
      let byteCount = PackLayout.recordByteCount(name: name.fileName.utf8.count, payload: payload, tail: tail),
      PackedHeader(header, nameDigest: name.digest, nameByteCount: name.fileName.utf8.count, sequence: 0) != nil
    else { return nil }
    return try packs.files.room(
      for: byteCount, of: header, in: ChunkClass(ttl: header.ttl, isDurable: isDurable),
      owner: try control.session.token(in: control), sequence: control.packSequence)
  }

  /// Puts a record into its room and publishes it.
  ///
  /// - Parameters:
  ///   - body: payload and extension, in one piece or in two.
  ///   - found: what it takes the place of.
  ///   - movesGeneration: false if the payload stays.
  /// - Throws: `IndexIsFull`; `FileError`. Nothing is changed then.
  mutating func commit(
    _ header: RecordHeader, _ payload: RawSpan, _ tail: RawSpan, as name: RecordPath, in room: borrowing PackRoom,
    replacing found: borrowing FoundRecord?, _ level: BlobStore.Durability.Level, movesGeneration: Bool = true,
    _ hold: borrowing KeyHold
  ) throws {
    let predecessor = PackedPredecessor(found)
    announce(room, predecessor, hold)
    do {
      try write(header, payload, tail, as: name, in: room)
      if level > .none { try synchronize(room) }
    } catch {
      try finish(hold)
      throw error
    }
    try publishWritten(
      header, as: name, in: room, replacing: predecessor, level, movesGeneration: movesGeneration, hold)
  }

  /// Says in the stripe that a record is about to be written: whoever takes the stripe from a dead process marks it as dead.
  func announce(_ room: borrowing PackRoom, _ predecessor: PackedPredecessor, _ hold: borrowing KeyHold) {
    hold.announce(.new, StripeIntent(predecessor.isFile ? .fromFile : .record, at: room.address.rawValue))
  }

  /// Publishes a record that was announced and written.
  ///
  /// - Throws: as `commit`.
  mutating func publishWritten(
    _ header: RecordHeader, as name: RecordPath, in room: borrowing PackRoom, replacing predecessor: PackedPredecessor,
    _ level: BlobStore.Durability.Level, movesGeneration: Bool = true, _ hold: borrowing KeyHold
  ) throws {
    let old = predecessor.address
    do {
      if let old { hold.announce(.old, StripeIntent(.record, at: old.rawValue)) }
      if movesGeneration {
        let change = hold.beginPayloadChange(level)
        defer { hold.end(change) }
        try publish(room.byteCount, at: room.address, name, over: old, header.lastUpdate)
        if predecessor.isFile { removeFile(name) }
      } else {
        hold.willChange(level)
        try publish(room.byteCount, at: room.address, name, over: old, header.lastUpdate)
      }
    } catch let error as IndexIsFull {
      // No index leads to it: there is nothing to settle, and a growth goes on.
      try markDead(room.address)
      hold.announce(.old, nil)
      hold.announce(.new, nil)
      throw error
    } catch {
      try finish(hold)
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
    _ header: RecordHeader, _ payload: RawSpan, _ tail: RawSpan, as name: RecordPath, in room: borrowing PackRoom
  ) throws {
    try unsafe withUnsafeTemporaryAllocation(byteCount: room.byteCount, alignment: 8) { buffer in
      try unsafe encode(header, payload, tail, as: name, in: room, into: buffer)
      try room.pack.write(unsafe RawSpan(_unsafeBytes: UnsafeRawBufferPointer(buffer)), at: room.address)
    }
  }

  /// Makes a record's bytes, and gives it its sequence.
  ///
  /// - Parameter buffer: as long as the room.
  func encode(
    _ header: RecordHeader, _ payload: RawSpan, _ tail: RawSpan, as name: RecordPath, in room: borrowing PackRoom,
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
    unsafe payload.withUnsafeBytes { unsafe part(packed.payloadRange).copyMemory(from: $0) }
    unsafe tail.withUnsafeBytes { unsafe part(packed.extensionRange).copyMemory(from: $0) }
    let padding = unsafe part(packed.extensionRange.upperBound..<packed.byteCount)
    unsafe padding.initializeMemory(as: UInt8.self, repeating: 0)
  }

  /// The indexes in which a change is made, one after the other.
  ///
  /// - Returns: the one that is being filled, if one is, and the one in force.
  private mutating func indexes() throws -> (growing: PackIndex?, inForce: PackIndex) {
    while true {
      // Before the index in force: the other way round, this one could come in force in between, and be missed.
      let growing = try packs.growingIndex()
      if packs.isInForce { return (growing, packs.index) }
      try follow()
    }
  }

  /// Exchanges the entry, in the index that is in force.
  private mutating func publish(
    _ byteCount: Int, at address: PackAddress, _ name: RecordPath, over old: PackAddress?, _ update: UnixTime
  ) throws {
    let (control, time) = (control, IndexLayout.time(of: update))
    func publish(in index: PackIndex) -> PackIndex.Publication {
      control.willStep(.exchangeEntry)
      return index.publish(byteCount, at: address, name.digest, over: old, time: time)
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

  private func countDead(_ entry: IndexEntry) throws {
    let pack = try packs.files.pack(entry.address.pack)
    pack?.entry(ofChunk: entry.address.chunk).countLive(records: -1, bytes: -entry.byteCount)
  }

  private func markDead(_ address: PackAddress) throws {
    guard let pack = try packs.files.pack(address.pack) else { return }
    control.willStep(.markDead)
    pack.deadBits(ofChunk: address.chunk).set(address, isDead: true)
  }
}

// MARK: - Removing

extension PackRecords {
  /// Removes a record.
  ///
  /// - Parameters:
  ///   - kind: what the stripe announces meanwhile.
  ///   - size: by which the counters fall; nil if they have been changed before.
  ///   - isErased: whether its bytes become zeros.
  /// - Returns: false if it is not there any more.
  /// - Throws: where it cannot be said to be on the medium, it is removed all the same.
  mutating func remove(
    _ name: RecordPath, at address: UInt64, _ level: BlobStore.Durability.Level, as kind: StripeIntent.Kind = .record,
    counting size: RecordSize? = nil, erasing isErased: Bool = false, _ hold: borrowing KeyHold
  ) throws -> Bool {
    let address = PackAddress(rawValue: address)
    hold.announce(.old, StripeIntent(kind, at: address.rawValue))
    let change = hold.beginPayloadChange(level)
    defer { hold.end(change) }
    let isRemoved = try takeAway(name, address, erasing: isErased)
    if isRemoved, let size { hold.count(from: size, to: nil) }
    // In all packs, because an older record of the key may lie in another one, whose bit is not on the medium yet.
    hold.announce(.old, nil)
    if level == .full { try packs.files.synchronize() }
    return isRemoved
  }

  /// - Throws: where its bytes cannot be overwritten, the record is removed all the same.
  mutating func takeAway(
    _ name: RecordPath, _ address: PackAddress, erasing isErased: Bool = false
  ) throws -> Bool {
    var (isRemoved, isMarked) = (false, false)
    var failure: FileError?
    while true {
      let (growing, inForce) = try indexes()
      if let growing {
        control.willStep(.exchangeEntry)
        _ = growing.remove(name.digest, at: address)
      }
      control.willStep(.exchangeEntry)
      if let entry = inForce.remove(name.digest, at: address) {
        isRemoved = true
        try countDead(entry)
        // Behind the entry, so that no load takes zeros for damage. Before the mark: its chunk is not used anew until then.
        if isErased { failure = try erase(at: address) }
      }
      // After the entry: no bit lies on a record that the index points at. Once: its chunk may be used anew from then on.
      if !isMarked { try markDead(address) }
      isMarked = true
      atomicMemoryFence(ordering: .sequentiallyConsistent)
      if packs.isInForce { break }
    }
    if let failure { throw failure }
    return isRemoved
  }

  /// - Returns: why the bytes of a record may not have become zeros.
  private func erase(at address: PackAddress) throws -> FileError? {
    guard let pack = try packs.files.pack(address.pack) else { return nil }
    do {
      // The entry knows the size in steps alone, and the next record begins behind this one. A damaged header is all that goes.
      let byteCount = try pack.head(of: address)?.header.byteCount ?? PackLayout.recordHeaderByteCount
      let zeros = [UInt8](repeating: 0, count: byteCount)
      try pack.write(unsafe zeros.span.bytes, at: address)
      return nil
    } catch let error as FileError {
      return error
    }
  }
}

// MARK: - Headers

extension PackRecords {
  /// Reads the header of a live record, lets a closure change it, and keeps the result.
  ///
  /// A later time of use is noted in the index. The count of locks is written in place where a chunk is for durable records.
  /// Else the record is stored anew.
  ///
  /// - Returns: nil, with nothing changed, if no entry leads to a record of the name, or there is no room in a pack for it as
  ///   it would be.
  /// - Throws: `DamagedRecord`; what the closure throws.
  mutating func changeHeader(
    of name: RecordPath, _ now: UnixTime, _ level: BlobStore.Durability.Level, _ hold: borrowing KeyHold,
    _ change: (inout RecordHeader) throws -> HeaderChange
  ) throws -> BlobStore.Outcome? {
    guard let (found, content) = try content(of: name) else { return nil }
    guard content.header.isLive(at: now, defaultExpiration: core.defaultExpiration) else { return .notFound }
    var header = content.header
    if case .unchanged(let outcome) = try change(&header) { return outcome }
    if try noteUse(found, name, from: content.header, to: header) { return .done }
    let changed = PackedContent(header: header, body: content.body)
    return try rewrite(found, name, from: content, to: changed, level, hold) ? .done : nil
  }

  /// - Returns: whether the index alone can say what has changed.
  private mutating func noteUse(
    _ found: PackedFinding, _ name: RecordPath, from before: RecordHeader, to header: RecordHeader
  ) throws -> Bool {
    var used = before
    used.updateTime = header.updateTime
    guard header == used, header.ttl == 0, header.updateTime >= found.header.updateTime else { return false }
    let time = IndexLayout.time(of: header.lastUpdate)
    // A time that the index cannot say is written.
    guard UInt64(clamping: IndexLayout.use(at: time).seconds) == header.updateTime else { return false }
    let (growing, inForce) = try indexes()
    growing?.setTime(time, of: name.digest, at: found.entry.address)
    inForce.setTime(time, of: name.digest, at: found.entry.address)
    return true
  }

  /// - Returns: false, with nothing changed, if it finds no room in a pack.
  private mutating func rewrite(
    _ found: PackedFinding, _ name: RecordPath, from before: PackedContent, to content: PackedContent,
    _ level: BlobStore.Durability.Level, _ hold: borrowing KeyHold
  ) throws -> Bool {
    let old = RecordSize(bytes: before.header.fileByteCount, isLocked: before.header.isLocked)
    let new = RecordSize(bytes: content.header.fileByteCount, isLocked: content.header.isLocked)
    var counted = before.header
    counted.refCount = content.header.refCount
    if counted == content.header, before.body == content.body,
      let pack = try writeInPlace(found, name, refCount: content.header.refCount, level, hold)
    {
      hold.count(from: old, to: new)
      if level > .none { try pack.synchronize() }
      try synchronizeUnlinks(of: name, level, hold)
      return true
    }
    let isDurable = level > .none || content.header.isLocked
    guard let room = try room(for: content.header, name, isDurable: isDurable) else { return false }
    let found = try find(name, by: RecordJudge())
    let payload = Int(content.header.payloadSize)
    let body = unsafe content.body.span.bytes
    try commit(
      content.header, body.extracting(first: payload), body.extracting(droppingFirst: payload), as: name, in: room,
      replacing: found, level, movesGeneration: before.body != content.body, hold)
    hold.count(from: old, to: new)
    try synchronizeUnlinks(of: name, level, hold)
    return true
  }

  /// Writes another count of locks over the old one: a sector is written as a whole.
  ///
  /// - Returns: the pack, which the caller syncs. nil for a record in a chunk of another class: the medium may have an older
  ///   copy of it.
  private mutating func writeInPlace(
    _ found: PackedFinding, _ name: RecordPath, refCount: UInt32, _ level: BlobStore.Durability.Level,
    _ hold: borrowing KeyHold
  ) throws -> PackFile? {
    let address = found.entry.address
    guard let pack = try packs.files.pack(address.pack), pack.entry(ofChunk: address.chunk).chunkClass == .durable,
      let salt = pack.deadBits(ofChunk: address.chunk).salt(ofQuarter: address.quarter)
    else { return nil }
    var header = found.header
    header.refCount = refCount
    hold.willChange(level)
    try unsafe withUnsafeTemporaryAllocation(byteCount: header.nameRange.upperBound, alignment: 8) { buffer in
      var bytes = unsafe MutableRawSpan(_unsafeBytes: buffer)
      unsafe name.fileName.withContiguousUTF8 {
        header.encode(name: unsafe $0.span.bytes, at: address, salt: salt, into: &bytes)
      }
      let head = unsafe UnsafeRawBufferPointer(rebasing: buffer[..<PackLayout.recordHeaderByteCount])
      try pack.write(unsafe RawSpan(_unsafeBytes: head), at: address)
    }
    // An index that was made anew meanwhile may lack a record whose header it has read half written.
    try publish(header.byteCount, at: address, name, over: nil, found.lastUse)
    return pack
  }

  /// Gives a record another extension. Its payload stays.
  ///
  /// - Returns: nil if no entry leads to a record of the name, or it does not fit into a pack with it.
  mutating func changeExtension(
    of name: RecordPath, _ now: UnixTime, _ hold: borrowing KeyHold, _ change: (inout RecordExtension) -> Void
  ) throws -> BlobStore.Outcome? {
    guard let (found, content) = try content(of: name) else { return nil }
    guard content.header.isLive(at: now, defaultExpiration: core.defaultExpiration) else { return .notFound }
    let payload = Int(content.header.payloadSize)
    // One that is damaged gives way to the new one.
    let kept = try? RecordExtension(decoding: unsafe content.body.span.bytes.extracting(droppingFirst: payload))
    var new = kept ?? RecordExtension()
    change(&new)
    guard new != kept ?? RecordExtension() else { return .done }
    let tail = new.encoded
    var changed = PackedContent(header: content.header, body: Array(content.body.prefix(payload)) + tail)
    changed.header.extensionEnd = UInt32(tail.count)
    guard
      PackLayout.recordByteCount(name: name.fileName.utf8.count, payload: payload, tail: tail.count) != nil
    else { return nil }
    let level = core.configuration.durability.level(concernsLock: content.header.isLocked)
    return try rewrite(found, name, from: content, to: changed, level, hold) ? .done : nil
  }
}
