internal import BlobRecord
internal import Posix

// Changes of a packed record's header or extension, which preserve its payload.

extension PackRecords {
  /// A later time of use is stored in the index, and the lock count is written in place in a chunk for durable
  /// records. For any other change, the record is stored again.
  ///
  /// - Returns: `nil`, with nothing changed, if no entry leads to a record of the name or no pack has space.
  /// - Throws: `DamagedRecord`; errors of the closure.
  mutating func rewriteHeader(
    of name: RecordPath, in _: OpenRoot, at now: UnixTime, _ level: BlobStore.Durability.Level, copiesLinked _: Bool,
    _ hold: inout KeyHold, _ change: (inout RecordHeader) throws -> HeaderChange
  ) throws -> RewrittenRecord? {
    guard let (found, content) = try content(of: name) else { return nil }
    guard content.header.isLive(at: now, defaultExpiration: core.defaultExpiration) else { return .settled(.notFound) }
    var header = content.header
    if case .unchanged(let outcome) = try change(&header) { return .settled(outcome) }
    if try noteUse(found, name, from: content.header, to: header) { return .settled(.done) }
    let changed = PackedContent(header: header, body: content.body)
    return try rewrite(found, name, from: content, to: changed, level, &hold) ? .settled(.done) : nil
  }

  /// Stores the time of use in the index. Returns `false` if the index cannot express the change.
  private mutating func noteUse(
    _ found: PackedFinding, _ name: RecordPath, from before: RecordHeader, to header: RecordHeader
  ) throws -> Bool {
    var used = before
    used.updateTime = header.updateTime
    guard header == used, header.ttl == 0, header.updateTime >= found.header.updateTime else { return false }
    let time = IndexLayout.time(of: header.lastUpdate)
    // A time outside the range of the index requires a new header.
    guard UInt64(clamping: IndexLayout.use(at: time).seconds) == header.updateTime else { return false }
    let (growing, inForce) = try indexes()
    growing?.setTime(time, of: name.digest, at: found.entry.address)
    inForce.setTime(time, of: name.digest, at: found.entry.address)
    return true
  }

  /// Returns `false`, with nothing changed, if no pack has space.
  private mutating func rewrite(
    _ found: PackedFinding, _ name: RecordPath, from before: PackedContent, to content: PackedContent,
    _ level: BlobStore.Durability.Level, _ hold: inout KeyHold
  ) throws -> Bool {
    let old = RecordSize(bytes: before.header.fileByteCount, isLocked: before.header.isLocked)
    let new = RecordSize(bytes: content.header.fileByteCount, isLocked: content.header.isLocked)
    // A header change is never refused because of the size limit.
    _ = hold.countAhead(from: old, to: new, within: nil)
    do {
      let isInPlace = try replace(found, name, from: before, to: content, level, &hold)
      hold.endCount(from: old, to: new, isInPlace: isInPlace)
      return isInPlace
    } catch {
      hold.endCount(from: old, to: new, isInPlace: error is Published)
      throw error
    }
  }

  /// Replaces a counted record, in place if only its lock count differs. Returns `false`, with nothing changed, if no
  /// pack has space. Throws `Published` if the record was changed despite the error.
  private mutating func replace(
    _ found: PackedFinding, _ name: RecordPath, from before: PackedContent, to content: PackedContent,
    _ level: BlobStore.Durability.Level, _ hold: inout KeyHold
  ) throws -> Bool {
    var locked = before.header
    locked.refCount = content.header.refCount
    if locked == content.header, before.body == content.body,
      let pack = try writeInPlace(found, name, refCount: content.header.refCount, level, &hold)
    {
      try afterPublication {
        // An index that was rebuilt concurrently may lack the record, because its header was only partly written.
        try publish(found.header.byteCount, at: found.entry.address, name, over: nil, found.lastUse)
        if level > .none { try pack.synchronize() }
        try synchronizeUnlinks(of: name, level)
      }
      return true
    }
    let isDurable = level > .none || content.header.isLocked
    guard let room = try roomIfAny(for: content.header, name, isDurable: isDurable) else { return false }
    let predecessor = PackedPredecessor(try find(name, by: RecordJudge()))
    let effect = PackedChange(
      changesPayload: before.body != content.body,
      keepsUse: before.header.updateTime == content.header.updateTime)
    try content.withBody { body in
      try commit(content.header, body, as: name, in: room, replacing: predecessor, level, effect, &hold)
    }
    try afterPublication { try synchronizeUnlinks(of: name, level) }
    return true
  }

  /// Returns `nil` also if the volume has no space for a chunk, because a file requires less.
  private mutating func roomIfAny(for header: RecordHeader, _ name: RecordPath, isDurable: Bool) throws -> PackRoom? {
    do {
      return try room(for: header, name, isDurable: isDurable)
    } catch let error as FileError where error.isLackOfRoom {
      return nil
    }
  }

  /// Overwrites the lock count, because a header does not cross a sector. Returns the pack, in which the caller must
  /// publish the record again and which it must sync. Returns `nil` for a chunk of another class, because the medium
  /// may have an older version of the record.
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
    return pack
  }

  /// Replaces the extension of a record. Returns `nil` if no record has the name or the new one is too large.
  mutating func changeExtension(
    of name: RecordPath, _ now: UnixTime, _ hold: inout KeyHold, _ change: (inout RecordExtension) -> Void
  ) throws -> BlobStore.Outcome? {
    guard let (found, content) = try content(of: name) else { return nil }
    guard content.header.isLive(at: now, defaultExpiration: core.defaultExpiration) else { return .notFound }
    let payload = Int(content.header.payloadSize)
    // A damaged extension is replaced by the new one.
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
