internal import BlobRecord
internal import Posix
internal import SystemPackage

/// Reads that never wait for the disk (`ReadMode.withoutBlocking`), and leave unusual cases to the ordinary reads.
extension FileRecords {
  /// Reads a record from the page cache. Throws `notCached` also for payloads above `cachedPayloadByteCount`.
  func readWithoutBlocking(
    _ name: RecordPath, of key: BlobKey, in open: OpenRoot, at now: UnixTime
  ) throws(CachedLookupFailure) -> Reading<RecordContent> {
    guard case .regular(let file, let status) = try openCached(name, in: open) else { return .absent }
    let largest = min(Self.cachedPayloadByteCount, core.configuration.limits.payload)
    let bodyCount = status.size - Int64(RecordHeader.byteCount)
    guard bodyCount >= 0, bodyCount <= largest else { throw .notCached }
    if bodyCount <= ReadStrategy.copiedPayloadByteCount {
      return try readCachedCopying(file, Int(status.size), name, key, now)
    }
    return try unsafe withUnsafeTemporaryAllocation(
      byteCount: RecordHeader.byteCount, alignment: 8
    ) { start throws(CachedLookupFailure) in
      guard let payload = PayloadBuffer(byteCount: Int(bodyCount)) else { throw .notCached }
      let count = try unsafe file.readCached(into: start, payload.bytes)
      guard count == Int(status.size) else { throw .notCached }
      switch unsafe core.judge(at: now).judge(
        RawSpan(_unsafeBytes: UnsafeRawBufferPointer(start)),
        RecordFacts(bodyByteCount: bodyCount, nameDigest: name.digest),
        body: RawSpan(_unsafeBytes: UnsafeRawBufferPointer(payload.bytes)))
      {
      case .sound(let header): return live(header, payload, name, key)
      case .expired: return .absent
      case .broken(let error, _): return .damaged(error)
      }
    }
  }

  private func readCachedCopying(
    _ file: borrowing OpenFile, _ byteCount: Int, _ name: RecordPath, _ key: BlobKey, _ now: UnixTime
  ) throws(CachedLookupFailure) -> Reading<RecordContent> {
    try unsafe withUnsafeTemporaryAllocation(byteCount: byteCount, alignment: 8) { whole throws(CachedLookupFailure) in
      let count = try unsafe file.readCached(into: whole)
      guard count == byteCount else { throw .notCached }
      let body = unsafe UnsafeRawBufferPointer(rebasing: whole.dropFirst(RecordHeader.byteCount))
      let facts = RecordFacts(bodyByteCount: Int64(byteCount - RecordHeader.byteCount), nameDigest: name.digest)
      switch unsafe core.judge(at: now).judge(
        RawSpan(_unsafeBytes: UnsafeRawBufferPointer(whole)), facts, body: RawSpan(_unsafeBytes: body))
      {
      case .sound(let header): return unsafe live(header, body, name, key)
      case .expired: return .absent
      case .broken(let error, _): return .damaged(error)
      }
    }
  }

  /// Reads a record's header from the page cache, and judges the record by it.
  func readHeaderWithoutBlocking(
    of name: RecordPath, in open: OpenRoot, at now: UnixTime
  ) throws(CachedLookupFailure) -> Reading<Void> {
    guard case .regular(let file, let status) = try openCached(name, in: open) else { return .absent }
    return try unsafe withUnsafeTemporaryAllocation(
      byteCount: RecordHeader.byteCount, alignment: 8
    ) { start throws(CachedLookupFailure) in
      let count = try unsafe file.readCached(into: start)
      guard count == start.count else { throw .notCached }
      let facts = RecordFacts(fileSize: status.size, nameDigest: name.digest)
      return Reading(core.judge(at: now).judge(unsafe RawSpan(_unsafeBytes: UnsafeRawBufferPointer(start)), facts))
    }
  }

  /// Opens a record if the kernel finds it without accessing the disk. Throws `notCached` also for a foreign or
  /// exposed file, and for a subdirectory whose owner must be checked.
  private func openCached(_ name: RecordPath, in open: OpenRoot) throws(CachedLookupFailure) -> OpenedFile {
    guard name.subdirectory.isEmpty || !open.ownership.isSharedByStrangers else { throw .notCached }
    switch try open.directory.openCachedFile(name.fileName, in: name.subdirectory) {
    case .absent: return .absent
    case .notRegular: throw .notCached
    case .regular(let file, let status):
      let owners = open.ownership.owners
      guard owners.include(ownerOf: status), !owners.expose(status) else { throw .notCached }
      return .regular(file, status)
    }
  }

  /// The largest payload to read on the caller's thread: 256 KiB, which takes as long as a hop to a thread and back.
  private static var cachedPayloadByteCount: Int64 { 256 << 10 }
}
