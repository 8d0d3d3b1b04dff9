internal import BlobRecord
internal import Posix
internal import SystemPackage

// Checks of complete records. A load checks a record that looks damaged, and a verification checks all records.
extension Records {
  /// Reads a complete record of any age in pieces. Without a checksum, only the payload's size is checked. Throws
  /// `payloadTooLarge` if no load would return the payload, because a header may claim any size.
  func verifyRecord(_ path: RecordPath) throws -> Reading<Void> {
    if let reading = try verifyPackedRecord(path) { return reading }
    let opened: OpenedFile
    do {
      opened = try openRecord(path, for: .read)
    } catch let damaged as DamagedRecord {
      return .damaged(damaged.error)
    }
    guard case .regular(let file, let status) = consume opened else { return .absent }
    let stored: StoredHeader
    switch try file.readHeader() {
    case .success(let header): stored = header
    case .failure(let error): return .damaged(error)
    }
    let judge = RecordJudge()
    var facts = RecordFacts(fileSize: status.size)
    // The header is judged first. The name's digest is not yet a fact, because its rule follows the payload's checksum.
    let header: RecordHeader
    switch judge.judge(stored, facts) {
    case .sound(let sound), .expired(let sound): header = sound
    case .broken(let error, _): return .damaged(try file.settled(error))
    }
    guard header.payloadSize <= core.configuration.limits.payload else {
      throw core.tooLarge(header, file.location.path)
    }
    if header.payloadChecksum != nil { try file.readPayloadChecksum(by: header, &facts) }
    let kept = try file.readExtension(by: stored, &facts)
    facts.nameDigest = path.digest
    let verdict = judge.judge(stored, facts)
    if case .sound = verdict,
      let breach = core.configuration.layout.naming.breach(ofKept: kept?.key, inRecordNamed: path.fileName)
    {
      return .damaged(breach)
    }
    return Reading(verdict)
  }

  private func verifyPackedRecord(_ path: RecordPath) throws -> Reading<Void>? {
    guard let open = try core.root.opened(),
      let found = try findPacked(open.placed(path), of: open, by: RecordJudge(), comparesPayload: true)
    else { return nil }
    // The creation of an entry also compares the record's name with the key that the record contains.
    let entry = core.entry(of: found, at: core.configuration.now())
    if let error = entry.accessError { throw error }
    if let damage = entry.damage { return .damaged(damage) }
    return entry.header.map { .live($0, ()) } ?? .absent
  }

  /// Opens the file at a path if it belongs to the cache. Throws `DamagedRecord` if other users can write to it.
  func openRecord(_ path: RecordPath, for access: FileAccess) throws -> OpenedFile {
    guard let open = try core.root.opened() else { return .absent }
    return try self.open(core.resolved(path, in: open), in: open, for: access)
  }
}

extension OpenFile {
  /// Sets the payload's CRC-32 in the facts, and the body's actual size if another program has truncated the file.
  borrowing func readPayloadChecksum(by header: RecordHeader, _ facts: inout RecordFacts) throws(FileError) {
    let payloadByteCount = Int64(clamping: header.payloadSize)
    let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: StoreCore.pieceByteCount, alignment: 16)
    defer { unsafe buffer.deallocate() }
    var checksum = CRC32()
    var byteCount: Int64 = 0
    while byteCount < payloadByteCount {
      let wanted = unsafe UnsafeMutableRawBufferPointer(
        rebasing: buffer.prefix(Int(min(payloadByteCount - byteCount, Int64(buffer.count)))))
      let count = try unsafe read(into: wanted, at: Int64(RecordHeader.byteCount) + byteCount)
      checksum.update(unsafe RawSpan(_unsafeBytes: wanted[..<count]))
      byteCount += Int64(count)
      if count < wanted.count {
        facts.bodyByteCount = byteCount
        break
      }
    }
    facts.payloadCRC = checksum.value
  }
}
