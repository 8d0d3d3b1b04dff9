internal import BlobRecord
internal import Posix
internal import Synchronization
internal import SystemPackage

extension FileRecords {
  /// Reads a whole record, which is damaged if it contains another key.
  ///
  /// - Parameter asksStatus: `true` to query the owner and the size even if they are known.
  func read(
    _ name: RecordPath, of key: BlobKey, in open: OpenRoot, at now: UnixTime, asksStatus: Bool
  ) throws -> Reading<RecordContent> {
    guard try open.trustsSubdirectory(name.subdirectory) else { return .absent }
    let expected = core.lastReadStrategy.load(ordering: .relaxed)
    let room = expected.byteCount(maximumPayload: core.configuration.limits.payload)
    return try unsafe withUnsafeTemporaryAllocation(byteCount: room, alignment: 8) { start in
      let needed: ReadStrategy
      let reading: Reading<RecordContent>
      switch try unsafe open.directory.readSmallFile(
        name.fileName, in: name.subdirectory, of: open.ownership.owners, asksStatus: asksStatus || expected == .payload,
        into: start)
      {
      // Two cases are needed, because one pattern cannot match two cases of a noncopyable value.
      case .absent: return .absent
      case .foreign: return .absent
      case .exposed: return .damaged(.writableByOthers)
      case .read(let byteCount):
        needed = ReadStrategy(fileByteCount: Int64(byteCount))
        let body = unsafe UnsafeRawBufferPointer(rebasing: start[..<byteCount].dropFirst(RecordHeader.byteCount))
        switch unsafe core.judge(at: now).judge(
          RawSpan(_unsafeBytes: start[..<byteCount]),
          RecordFacts(bodyByteCount: Int64(body.count), nameDigest: name.digest), body: RawSpan(_unsafeBytes: body))
        {
        case .sound(let header): reading = unsafe live(header, body, name, key)
        case .expired: reading = .absent
        case .broken(let error, _): reading = .damaged(error)
        }
      case .larger(let file, let status):
        needed = ReadStrategy(fileByteCount: status.size)
        reading = try readLarge(file, status, name, key, now)
      }
      let next = expected.next(needed)
      if next != expected { core.lastReadStrategy.store(next, ordering: .relaxed) }
      return reading
    }
  }

  private func readLarge(
    _ file: consuming OpenFile, _ status: Stat, _ name: RecordPath, _ key: BlobKey, _ now: UnixTime
  ) throws -> Reading<RecordContent> {
    let expectedCount = status.size - Int64(RecordHeader.byteCount)
    let maximum = core.configuration.limits.payload
    let isTooLarge = expectedCount > maximum
    if isTooLarge || expectedCount > Self.unseenPayloadByteCount {
      // The header is judged first, so that an expired record or an unrelated file costs neither memory nor time. If
      // the payload is read, its checksum is judged before the name's digest.
      let facts = RecordFacts(fileSize: status.size, nameDigest: isTooLarge ? name.digest : nil)
      switch try file.judgeHeader(core.judge(at: now), facts) {
      case .expired: return .absent
      case .broken(let error, _): return .damaged(error)
      case .sound(let header):
        // Only the header of a sound and live record makes its size an error. The extension does not count.
        guard header.payloadSize <= maximum else { throw core.tooLarge(header, file.location.path) }
      }
    }
    return try unsafe withUnsafeTemporaryAllocation(byteCount: RecordHeader.byteCount, alignment: 8) { start in
      guard let body = PayloadBuffer(byteCount: Int(expectedCount)) else {
        throw FileError(.read, file.location, .noMemory)
      }
      let readCount = try unsafe file.read(into: start, body.bytes)
      // Fewer bytes than expected mean that another program truncates the file.
      let bodyCount = max(readCount - RecordHeader.byteCount, 0)
      let bodyRead = unsafe UnsafeRawBufferPointer(rebasing: body.bytes.prefix(bodyCount))
      switch unsafe core.judge(at: now).judge(
        RawSpan(_unsafeBytes: start.prefix(readCount)),
        RecordFacts(bodyByteCount: Int64(bodyCount), nameDigest: name.digest), body: RawSpan(_unsafeBytes: bodyRead))
      {
      case .sound(let header): return live(header, body, name, key)
      case .expired: return .absent
      case .broken(let error, _): return .damaged(error)
      }
    }
  }

  /// Returns the content of a sound record with a copy of its payload. Without `use`, its use is noted in the header of
  /// its file.
  func live(
    _ header: RecordHeader, _ body: UnsafeRawBufferPointer, _ name: RecordPath, _ key: BlobKey, _ use: RecordUse? = nil
  ) -> Reading<RecordContent> {
    guard let end = header.extensionEnd else {
      return unsafe .live(header, RecordContent(payload: Data(bytes: body.baseAddress!, count: body.count), use: use))
    }
    do throws(RecordError) {
      let extendedData = try unsafe extendedData(header, endingAt: end, RawSpan(_unsafeBytes: body), name, key)
      let payload = unsafe Data(bytes: body.baseAddress!, count: Int(header.payloadSize))
      return .live(header, RecordContent(payload: payload, extendedData: extendedData, use: use))
    } catch {
      return .damaged(error)
    }
  }

  /// Returns the content of a sound record without copying its payload.
  func live(
    _ header: RecordHeader, _ body: consuming PayloadBuffer, _ name: RecordPath, _ key: BlobKey
  ) -> Reading<RecordContent> {
    let payloadCount = Int(header.payloadSize)
    guard let end = header.extensionEnd else { return .live(header, RecordContent(payload: body.take(payloadCount))) }
    do throws(RecordError) {
      // The extension is decoded before the payload takes over the memory.
      let bytes = unsafe UnsafeRawBufferPointer(body.bytes)
      let extendedData = try unsafe extendedData(header, endingAt: end, RawSpan(_unsafeBytes: bytes), name, key)
      return .live(header, RecordContent(payload: body.take(payloadCount), extendedData: extendedData))
    } catch {
      return .damaged(error)
    }
  }

  private func extendedData(
    _ header: RecordHeader, endingAt end: UInt32, _ body: RawSpan, _ name: RecordPath, _ key: BlobKey
  ) throws(RecordError) -> Data? {
    let start = Int(header.payloadSize)
    let kept = try RecordExtension(decoding: body.extracting(start..<(start + Int(end))))
    if let keptKey = kept.key, keptKey != key,
      let breach = core.configuration.layout.naming.breach(ofKept: keptKey, inRecordNamed: name.fileName)
    {
      throw breach
    }
    return kept.extendedData
  }

  /// The largest payload that is read before its header is judged. Above it, an additional system call does not
  /// matter.
  private static var unseenPayloadByteCount: Int64 { 1 << 20 }

  func readHeader(of name: RecordPath, in open: OpenRoot, at now: UnixTime) throws -> Reading<Void> {
    guard case .regular(let file, let status) = try self.open(name, in: open, for: .read) else {
      return .absent
    }
    let facts = RecordFacts(fileSize: status.size, nameDigest: name.digest)
    return Reading(try file.judgeHeader(core.judge(at: now), facts))
  }

  /// Reads a record's header and its extension, and judges the record by them.
  func judgeWithExtension(
    _ file: borrowing OpenFile, _ status: Stat, at name: RecordPath, now: UnixTime
  ) throws(FileError) -> (verdict: RecordVerdict, extension: RecordExtension?) {
    let stored: StoredHeader
    switch try file.readHeader() {
    case .success(let header): stored = header
    case .failure(let error): return (.broken(error, nil), nil)
    }
    var facts = RecordFacts(fileSize: status.size, nameDigest: name.digest)
    let kept = try file.readExtension(by: stored, &facts)
    let verdict = core.judge(at: now).judge(stored, facts)
    if case .sound(let header) = verdict,
      let breach = core.configuration.layout.naming.breach(ofKept: kept?.key, inRecordNamed: name.fileName)
    {
      return (.broken(breach, header), nil)
    }
    return (verdict, kept)
  }
}

extension OpenFile {
  /// Judges the file by its first 64 bytes, or by as many as it has.
  borrowing func judgeHeader(_ judge: RecordJudge, _ facts: RecordFacts) throws(FileError) -> RecordVerdict {
    try unsafe withUnsafeTemporaryAllocation(
      byteCount: RecordHeader.byteCount, alignment: 8
    ) { buffer throws(FileError) in
      let count = try unsafe read(into: buffer, at: 0)
      return judge.judge(unsafe RawSpan(_unsafeBytes: buffer.prefix(count)), facts)
    }
  }

  /// Returns the violated rule, and distinguishes an abandoned stream from a stream that is being written. System
  /// calls for a stream: `flock(2)`. For an abandoned stream, also another `flock(2)` and `pread(2)`.
  borrowing func settled(_ breach: RecordError) throws(FileError) -> RecordError {
    // The header is read again, because the writer may have completed the record before it released its lock.
    guard breach == .recordIsStreamAndBusy, try !isLockedElsewhere(), case .success(let header) = try readHeader(),
      header.flags.contains(.streamIncomplete)
    else { return breach }
    return .abandonedStream
  }

  /// Reads the record's extension if its header announces a whole one, which is noted in the facts.
  borrowing func readExtension(
    by header: StoredHeader, _ facts: inout RecordFacts
  ) throws(FileError) -> RecordExtension? {
    guard let bodyByteCount = facts.bodyByteCount.flatMap(Int.init(exactly:)),
      let range = header.tailRange(ofBody: bodyByteCount), range.count <= RecordExtension.maximumTailByteCount
    else { return nil }
    let bytes = try bytes(in: (RecordHeader.byteCount + range.lowerBound)..<(RecordHeader.byteCount + range.upperBound))
    // The error is not needed, because the judge only checks whether the extension is complete.
    let found = try? RecordExtension(decoding: unsafe bytes.span.bytes)
    facts.hasWholeExtension = bytes.count == range.count && found != nil
    return facts.hasWholeExtension == true ? found : nil
  }

  /// Returns the bytes of a range, or fewer if the file is shorter.
  borrowing func bytes(in range: Range<Int>) throws(FileError) -> [UInt8] {
    let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: range.count, alignment: 1)
    defer { unsafe buffer.deallocate() }
    let count = try unsafe read(into: buffer, at: Int64(range.lowerBound))
    return unsafe Array(buffer[..<count])
  }

  borrowing func readHeader() throws(FileError) -> Result<StoredHeader, RecordError> {
    try unsafe withUnsafeTemporaryAllocation(
      byteCount: RecordHeader.byteCount, alignment: 8
    ) { buffer throws(FileError) in
      let count = try unsafe read(into: buffer, at: 0)
      do throws(RecordError) {
        return .success(try unsafe StoredHeader(decoding: RawSpan(_unsafeBytes: buffer.prefix(count))))
      } catch {
        return .failure(error)
      }
    }
  }
}
