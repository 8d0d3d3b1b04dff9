internal import BlobRecord
internal import Posix
internal import SystemPackage

/// Reads that never wait for the disk (`ReadMode.withoutBlocking`). They check what the ordinary reads check, and leave all that is
/// odd to those.
extension FileRecords {
  /// Reads a whole record that is in memory.
  ///
  /// - Throws: `notCached` also for a record that is larger than `cachedPayloadByteCount`.
  func readWithoutBlocking(
    _ name: RecordPath, of key: BlobKey, in open: OpenRoot, at now: UnixTime
  ) throws(CachedLookFailure) -> Reading<RecordContent> {
    guard case .regular(let file, let status) = try openCached(name, in: open) else { return .absent }
    let largest = min(Self.cachedPayloadByteCount, core.configuration.limits.payload)
    let bodyCount = status.size - Int64(RecordHeader.byteCount)
    guard bodyCount >= 0, bodyCount <= largest else { throw .notCached }
    if bodyCount <= ReadStrategy.copiedPayloadByteCount {
      return try readCachedCopying(file, Int(status.size), name, key, now)
    }
    return try unsafe withUnsafeTemporaryAllocation(
      byteCount: RecordHeader.byteCount, alignment: 8
    ) { start throws(CachedLookFailure) in
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
  ) throws(CachedLookFailure) -> Reading<RecordContent> {
    try unsafe withUnsafeTemporaryAllocation(byteCount: byteCount, alignment: 8) { whole throws(CachedLookFailure) in
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

  /// Reads a record's header that is in memory, and judges the record by it.
  func readHeaderWithoutBlocking(
    of name: RecordPath, in open: OpenRoot, at now: UnixTime
  ) throws(CachedLookFailure) -> Reading<Void> {
    guard case .regular(let file, let status) = try openCached(name, in: open) else { return .absent }
    return try unsafe withUnsafeTemporaryAllocation(
      byteCount: RecordHeader.byteCount, alignment: 8
    ) { start throws(CachedLookFailure) in
      let count = try unsafe file.readCached(into: start)
      guard count == start.count else { throw .notCached }
      let facts = RecordFacts(fileSize: status.size, nameDigest: name.digest)
      return Reading(core.judge(at: now).judge(unsafe RawSpan(_unsafeBytes: UnsafeRawBufferPointer(start)), facts))
    }
  }

  /// Opens a record that the kernel finds without the disk.
  ///
  /// - Returns: `regular` or `absent`.
  /// - Throws: `notCached` also for a foreign file, an exposed one, and a subdirectory whose owner must be asked for.
  private func openCached(_ name: RecordPath, in open: OpenRoot) throws(CachedLookFailure) -> OpenedFile {
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

  /// The largest payload that is read where the caller is: 256 KiB.
  ///
  /// Copying it and its checksum take as long as a hop to a thread and back.
  private static var cachedPayloadByteCount: Int64 { 256 << 10 }
}
