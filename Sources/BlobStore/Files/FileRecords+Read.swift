internal import BlobRecord
internal import Posix
internal import Synchronization
internal import SystemPackage

#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#elseif canImport(Android)
  internal import Android
#endif
#if canImport(FoundationEssentials)
  internal import FoundationEssentials
#else
  internal import Foundation
#endif

extension FileRecords {
  /// Reads a whole record.
  ///
  /// - Parameter asksStatus: whether to ask for the file's owner and size where they are known without that, too.
  func read(
    _ name: RecordPath, in open: OpenRoot, at now: UnixTime, asksStatus: Bool
  ) throws -> Reading<Data> {
    guard try open.trustsSubdirectory(name.subdirectory) else { return .absent }
    let expected = core.lastReadStrategy.load(ordering: .relaxed)
    let room = expected.byteCount(maximumPayload: core.configuration.limits.payload)
    return try unsafe withUnsafeTemporaryAllocation(byteCount: room, alignment: 8) { start in
      let needed: ReadStrategy
      let reading: Reading<Data>
      switch try unsafe open.directory.readSmallFile(
        name.fileName, in: name.subdirectory, of: open.ownership.owners, asksStatus: asksStatus || expected == .payload,
        into: start)
      {
      // Two cases, because the compiler takes no two patterns for a value that cannot be copied.
      case .absent: return .absent
      case .foreign: return .absent
      case .exposed: return .damaged(.writableByOthers)
      case .read(let byteCount):
        needed = ReadStrategy(fileByteCount: Int64(byteCount))
        let payload = unsafe UnsafeRawBufferPointer(rebasing: start[..<byteCount].dropFirst(RecordHeader.byteCount))
        switch unsafe core.judge(at: now).judge(
          RawSpan(_unsafeBytes: start[..<byteCount]),
          RecordFacts(payloadByteCount: Int64(payload.count), nameDigest: name.digest),
          payload: RawSpan(_unsafeBytes: payload))
        {
        case .sound(let header):
          reading = .live(header, unsafe Data(bytes: payload.baseAddress!, count: payload.count))
        case .expired: reading = .absent
        case .broken(let error, _): reading = .damaged(error)
        }
      case .larger(let file, let status):
        needed = ReadStrategy(fileByteCount: status.size)
        reading = try readLarge(file, status, name, now)
      }
      let next = expected.next(needed)
      if next != expected { core.lastReadStrategy.store(next, ordering: .relaxed) }
      return reading
    }
  }

  private func readLarge(
    _ file: consuming OpenFile, _ status: Stat, _ name: RecordPath, _ now: UnixTime
  ) throws -> Reading<Data> {
    let expectedCount = status.size - Int64(RecordHeader.byteCount)
    let isTooLarge = expectedCount > core.configuration.limits.payload
    if isTooLarge || expectedCount > Self.unseenPayloadByteCount {
      // The header is judged first, so that an expired record or a strange file takes neither memory nor time. Where
      // the payload is read, its checksum is judged before the name's digest.
      let facts = RecordFacts(fileSize: status.size, nameDigest: isTooLarge ? name.digest : nil)
      switch try file.judgeHeader(core.judge(at: now), facts) {
      case .expired: return .absent
      case .broken(let error, _): return .damaged(error)
      case .sound(let header):
        // Only a header that is sound and live makes the size an error of its own.
        guard !isTooLarge else { throw core.tooLarge(header, file.location.path) }
      }
    }
    return try unsafe withUnsafeTemporaryAllocation(byteCount: RecordHeader.byteCount, alignment: 8) { start in
      guard let payload = PayloadBuffer(byteCount: Int(expectedCount)) else {
        throw FileError(.read, file.location, .noMemory)
      }
      let readCount = try unsafe file.read(into: start, payload.bytes)
      // Fewer bytes than a moment ago mean that another program truncates the file.
      let payloadCount = max(readCount - RecordHeader.byteCount, 0)
      switch unsafe core.judge(at: now).judge(
        RawSpan(_unsafeBytes: start.prefix(readCount)),
        RecordFacts(payloadByteCount: Int64(payloadCount), nameDigest: name.digest),
        payload: RawSpan(_unsafeBytes: UnsafeRawBufferPointer(rebasing: payload.bytes.prefix(payloadCount))))
      {
      case .sound(let header): return .live(header, payload.take())
      case .expired: return .absent
      case .broken(let error, _): return .damaged(error)
      }
    }
  }

  /// The largest payload that is read together with its header, which is judged afterwards. Above this, a further call
  /// does not matter.
  private static var unseenPayloadByteCount: Int64 { 1 << 20 }

  /// Reads a record's header, and judges the record by it.
  func readHeader(of name: RecordPath, in open: OpenRoot, at now: UnixTime) throws -> Reading<Void> {
    guard case .regular(let file, let status) = try self.open(name, in: open, for: .read) else {
      return .absent
    }
    let facts = RecordFacts(fileSize: status.size, nameDigest: name.digest)
    return Reading(try file.judgeHeader(core.judge(at: now), facts))
  }
}

extension OpenFile {
  /// Reads the first 64 bytes, or as many as there are, and judges the file by them.
  borrowing func judgeHeader(_ judge: RecordJudge, _ facts: RecordFacts) throws(FileError) -> RecordVerdict {
    try unsafe withUnsafeTemporaryAllocation(
      byteCount: RecordHeader.byteCount, alignment: 8
    ) { buffer throws(FileError) in
      let count = try unsafe read(into: buffer, at: 0)
      return judge.judge(unsafe RawSpan(_unsafeBytes: buffer.prefix(count)), facts)
    }
  }

  /// Reads the first 64 bytes and takes them apart.
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
