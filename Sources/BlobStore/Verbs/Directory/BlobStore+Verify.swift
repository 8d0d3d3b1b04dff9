internal import BlobRecord
internal import Logging
internal import Posix
internal import SystemPackage

extension BlobStore {
  /// Checks every record, expired ones too: header, size, payload checksum and key digest.
  ///
  /// - Parameters:
  ///   - policy: the fate of damaged files of any kind, records of later versions among them.
  ///   - visit: receives each finding as it is made.
  /// - Throws: `notACache` for a repair where nothing shows that the directory is a cache; `fileSystem`.
  /// - Complexity: reads every byte of the directory once, 256 KiB at a time.
  public func verify(
    repairing policy: DamagePolicy = .report, _ visit: (VerificationFinding) -> Void = { _ in }
  ) throws(BlobStoreError) -> VerificationReport {
    try withErrorContext("verify") { try core.verify(repairing: policy, visit) }
  }
}

extension StoreCore {
  fileprivate func verify(
    repairing policy: BlobStore.DamagePolicy, _ visit: (BlobStore.VerificationFinding) -> Void
  ) throws -> BlobStore.VerificationReport {
    if policy != .report { try requireCache() }
    var report = BlobStore.VerificationReport()
    func tell(_ finding: BlobStore.VerificationFinding) {
      report.add(finding)
      visit(finding)
    }
    guard let walk = try walk() else { return report }
    // Told of at the end.
    var busy = BusyRecords<RecordEntry>(waiting: configuration.access.lockTimeout)
    while let item = try walk.next() {
      let finding: BlobStore.VerificationFinding
      switch item {
      case .record(let met):
        let entry = try verified(met)
        guard let repaired = repaired(entry, policy) else {
          busy.add(entry)
          continue
        }
        finding = repaired
      case .temporary(let name):
        finding = .temporary(walk.withCurrentDirectory { $0.path.appending(name) })
      case .foreign(let name): finding = .foreign(root.path.appending(name))
      case .foreignRecord(let record): finding = .foreignRecord(record)
      case .covered, .endOfSubdirectory: continue
      }
      tell(finding)
    }
    busy.comeBack(unless: { false }) { entry in
      guard let finding = repaired(entry, policy) else { return true }
      tell(finding)
      return false
    }
    for entry in busy.kept {
      logNotRepaired(entry, BlobStoreError(busy: 1, for: configuration.access.lockTimeout, at: root.path))
      tell(.record(entry))
    }
    return report
  }

  private func logNotRepaired(_ entry: RecordEntry, _ error: any Error) {
    configuration.logger.warning("not repaired: \(BlobStoreError(error, operation: "verify", key: entry.key))")
  }

  /// Does with a damaged file what the policy says, if it is still damaged under its stripe.
  ///
  /// - Returns: nil if others are changing it, or a key that shares its lock.
  private func repaired(_ entry: RecordEntry, _ policy: BlobStore.DamagePolicy) -> BlobStore.VerificationFinding? {
    guard policy != .report, entry.state == .damaged, let path = entry.path else { return .record(entry) }
    do {
      guard let hold = try holdIfAvailable(path.digest, makesControlFile: true) else { return nil }
      guard case .damaged = try verifyRecord(path) else { return .record(entry) }
      try discard(path, policy, hold)
      return .repaired(entry)
    } catch {
      // One file that is in use or cannot be removed does not keep the others from it.
      logNotRepaired(entry, error)
      return .record(entry)
    }
  }

  /// The entry, with what its payload says.
  private func verified(_ entry: RecordEntry) throws -> RecordEntry {
    guard let path = entry.path, entry.state != .unreadable else { return entry }
    do {
      var reading = try verifyRecord(path)
      if case .damaged = reading { reading = try verifyRecord(path) }
      if case .damaged = reading, let hold = try holdIfAvailable(path.digest) {
        defer { extendLifetime(hold) }
        reading = try verifyRecord(path)
      }
      // A record that was replaced or removed since it was listed is judged as it was then. Damage that does not show
      // again was a change under way.
      switch reading {
      case .damaged(let error): return entry.damaged(error)
      case .live where entry.state == .damaged: return try listed(path) ?? entry
      case .live, .absent: return entry
      }
    } catch {
      return RecordEntry(unreadable: entry.file, path: path, BlobStoreError(error, operation: "verify", key: entry.key))
    }
  }

  /// The entry that a walk would meet at a path now; nil if it is no sound record.
  private func listed(_ path: RecordPath) throws -> RecordEntry? {
    guard let open = try root.opened() else { return nil }
    let now = configuration.now()
    if let found = try records.findPacked(path, of: open, by: judge(at: now)) {
      return found.header == nil ? nil : entry(of: found, at: now)
    }
    return try lookInSubdirectory(of: path, open) { directory in
      guard case .record(let found) = records.find(path, in: directory, of: open, by: judge(at: now)),
        found.header != nil
      else { return nil }
      return entry(of: found, at: now)
    }
  }

  /// Reads a whole record of any age, in pieces. A payload without a checksum is judged only by its size.
  ///
  /// - Throws: `payloadTooLarge` for a payload that no load returns: a file that claims to be endless is not read.
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
    // Before the payload is read: its checksum comes before the name's digest.
    let header: RecordHeader
    switch judge.judge(stored, facts) {
    case .sound(let sound), .expired(let sound): header = sound
    case .broken(let error, _): return .damaged(try file.settled(error))
    }
    guard header.payloadSize <= configuration.limits.payload else { throw tooLarge(header, file.location.path) }
    if header.payloadChecksum != nil { try file.readPayloadChecksum(by: header, &facts) }
    let kept = try file.readExtension(by: stored, &facts)
    facts.nameDigest = path.digest
    let verdict = judge.judge(stored, facts)
    if case .sound = verdict,
      let breach = configuration.layout.naming.breach(ofKept: kept?.key, inRecordNamed: path.fileName)
    {
      return .damaged(breach)
    }
    return Reading(verdict)
  }

  /// - Returns: nil if the record does not lie in a pack.
  private func verifyPackedRecord(_ path: RecordPath) throws -> Reading<Void>? {
    guard let open = try root.opened(),
      let found = try records.findPacked(open.placed(path), of: open, by: RecordJudge(), comparesPayload: true)
    else { return nil }
    // As an entry, it is also compared with the key that it keeps.
    let entry = entry(of: found, at: configuration.now())
    if let error = entry.accessError { throw error }
    if let damage = entry.damage { return .damaged(damage) }
    return entry.header.map { .live($0, ()) } ?? .absent
  }
}

extension OpenFile {
  /// Reads the payload in pieces, for its CRC-32.
  ///
  /// - Parameter facts: told of the checksum, and of the file's size if that is not the header's any more.
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
        // Another program has truncated the file since.
        facts.bodyByteCount = byteCount
        break
      }
    }
    facts.payloadCRC = checksum.value
  }
}
