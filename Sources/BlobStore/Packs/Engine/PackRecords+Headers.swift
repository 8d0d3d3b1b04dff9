internal import BlobRecord
internal import Posix

// Changes of a packed record's header or extension. Its payload stays.

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
    of name: RecordPath, _ now: UnixTime, _ level: BlobStore.Durability.Level, _ hold: inout KeyHold,
    _ change: (inout RecordHeader) throws -> HeaderChange
  ) throws -> BlobStore.Outcome? {
    guard let (found, content) = try content(of: name) else { return nil }
    guard content.header.isLive(at: now, defaultExpiration: core.defaultExpiration) else { return .notFound }
    var header = content.header
    if case .unchanged(let outcome) = try change(&header) { return outcome }
    if try noteUse(found, name, from: content.header, to: header) { return .done }
    let changed = PackedContent(header: header, body: content.body)
    return try rewrite(found, name, from: content, to: changed, level, &hold) ? .done : nil
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
    _ level: BlobStore.Durability.Level, _ hold: inout KeyHold
  ) throws -> Bool {
    let old = RecordSize(bytes: before.header.fileByteCount, isLocked: before.header.isLocked)
    let new = RecordSize(bytes: content.header.fileByteCount, isLocked: content.header.isLocked)
    var counted = before.header
    counted.refCount = content.header.refCount
    if counted == content.header, before.body == content.body,
      let pack = try writeInPlace(found, name, refCount: content.header.refCount, level, &hold)
    {
      hold.count(from: old, to: new)
      if level > .none { try pack.synchronize() }
      try synchronizeUnlinks(of: name, level, hold)
      return true
    }
    let isDurable = level > .none || content.header.isLocked
    guard let room = try roomIfAny(for: content.header, name, isDurable: isDurable) else { return false }
    let predecessor = PackedPredecessor(Predecessor(try find(name, by: RecordJudge())))
    // A header never makes the directory exceed its limit.
    _ = hold.countAhead(from: old, to: new, within: nil)
    var isInPlace = false
    defer { hold.endCount(from: old, to: new, isInPlace: isInPlace) }
    let effect = PackedChange(
      changesPayload: before.body != content.body,
      keepsUse: before.header.updateTime == content.header.updateTime)
    try content.withBody { body in
      try commit(content.header, body, as: name, in: room, replacing: predecessor, level, effect, &hold)
    }
    isInPlace = true
    try synchronizeUnlinks(of: name, level, hold)
    return true
  }

  /// - Returns: nil also where the volume has no room for a chunk: a file takes less.
  private mutating func roomIfAny(for header: RecordHeader, _ name: RecordPath, isDurable: Bool) throws -> PackRoom? {
    do {
      return try room(for: header, name, isDurable: isDurable)
    } catch let error as FileError where error.isLackOfRoom {
      return nil
    }
  }

  /// Writes another count of locks over the old one: a sector is written as a whole.
  ///
  /// - Returns: the pack, which the caller syncs. nil for a record in a chunk of another class: the medium may have an older
  ///   copy of it.
  private mutating func writeInPlace(
    _ found: PackedFinding, _ name: RecordPath, refCount: UInt32, _ level: BlobStore.Durability.Level,
    _ hold: inout KeyHold
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
    of name: RecordPath, _ now: UnixTime, _ hold: inout KeyHold, _ change: (inout RecordExtension) -> Void
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
    return try rewrite(found, name, from: content, to: changed, level, &hold) ? .done : nil
  }
}
