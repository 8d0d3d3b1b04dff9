internal import BlobRecord
internal import Posix

/// A lookup of a record in either engine.
///
/// A lookup is a value because a closure would copy the path, whose strings are reference-counted, on each load.
protocol RecordLookup {
  associatedtype Content
  /// The record's path by the arrangement of any directory.
  var path: RecordPath { get }

  /// Reads a packed record. Returns `nil` if no index entry refers to it; it may still be in a file.
  func packed(_ name: RecordPath, _ packs: PackRecords, _ mode: ReadMode) throws -> Reading<Content>?

  func file(_ name: RecordPath, _ files: FileRecords, in open: OpenRoot, _ mode: ReadMode) throws -> Reading<Content>
}

extension RecordLookup where Self: PackedLookup, Result == Reading<Content> {
  func packed(_ name: RecordPath, _ packs: PackRecords, _ mode: ReadMode) throws -> Reading<Content>? {
    switch try packs.lookUp(name, mayBlock: mode.mayBlock, self) {
    case .absent: nil
    case .found(let reading): reading
    case .broken(let error, _): .damaged(error)
    }
  }
}

struct WholeLookup: RecordLookup, PackedLookup {
  let key: BlobKey
  let path: RecordPath
  let now: UnixTime

  func file(
    _ name: RecordPath, _ files: FileRecords, in open: OpenRoot, _ mode: ReadMode
  ) throws -> Reading<RecordContent> {
    guard mode.mayBlock else { return try files.readWithoutBlocking(name, of: key, in: open, at: now) }
    return try files.read(name, of: key, in: open, at: now, asksStatus: mode == .again)
  }

  func result(
    of found: PackedFinding, _ name: RecordPath, _ bytes: UnsafeRawBufferPointer, in records: PackRecords
  ) throws -> Reading<RecordContent> {
    let core = records.core
    let header = found.recordHeader(name)
    guard header.isLive(at: now, defaultExpiration: core.defaultExpiration) else { return .absent }
    guard unsafe found.header.isPayloadSound(in: RawSpan(_unsafeBytes: bytes)) else {
      return .damaged(unsafe found.header.payloadBreach(in: RawSpan(_unsafeBytes: bytes)))
    }
    guard header.payloadSize <= core.configuration.limits.payload else {
      throw core.tooLarge(header, records.packs.path(of: found.entry.address))
    }
    return unsafe FileRecords(core: core).live(
      header, UnsafeRawBufferPointer(rebasing: bytes[found.header.bodyRange]), name, key,
      records.packs.use(of: found.entry, at: found.slot, name.digest))
  }
}

struct HeaderLookup: RecordLookup, PackedLookup {
  let path: RecordPath
  let now: UnixTime

  func file(_ name: RecordPath, _ files: FileRecords, in open: OpenRoot, _ mode: ReadMode) throws -> Reading<Void> {
    guard mode.mayBlock else { return try files.readHeaderWithoutBlocking(of: name, in: open, at: now) }
    return try files.readHeader(of: name, in: open, at: now)
  }

  func result(
    of found: PackedFinding, _ name: RecordPath, _ bytes: UnsafeRawBufferPointer, in records: PackRecords
  ) -> Reading<Void> {
    let header = found.recordHeader(name)
    return header.isLive(at: now, defaultExpiration: records.core.defaultExpiration) ? .live(header, ()) : .absent
  }
}

/// A lookup of a live record that stays open for payload reads. It may always block.
struct OpenLookup: RecordLookup {
  let path: RecordPath
  let now: UnixTime

  func packed(_ name: RecordPath, _ packs: PackRecords, _: ReadMode) throws -> Reading<OpenRecord>? {
    try packs.openAsFile(name, at: now)?.whole
  }

  func file(_ name: RecordPath, _ files: FileRecords, in open: OpenRoot, _: ReadMode) throws -> Reading<OpenRecord> {
    try files.openLive(name, in: open, at: now)
  }
}

/// A lookup like `OpenLookup` that also returns a record that is still being written.
struct FollowedLookup: RecordLookup {
  let path: RecordPath
  let now: UnixTime

  func packed(_ name: RecordPath, _ packs: PackRecords, _: ReadMode) throws -> Reading<FollowedRecord>? {
    try packs.openAsFile(name, at: now)
  }

  func file(
    _ name: RecordPath, _ files: FileRecords, in open: OpenRoot, _: ReadMode
  ) throws -> Reading<FollowedRecord> {
    try files.openFollowed(name, in: open, at: now)
  }
}

extension PackRecords {
  /// Copies a packed record into an unnamed memory file.
  fileprivate func openAsFile(_ name: RecordPath, at now: UnixTime) throws -> Reading<FollowedRecord>? {
    do {
      guard let bytes = try asFile(name) else { return nil }
      let file = try open.memoryFile(bytes, names: core.temporaryNames)
      let status = try file.status()
      let (verdict, kept) = try FileRecords(core: core).judgeWithExtension(file, status, at: name, now: now)
      switch verdict {
      case .sound(let header): return .live(header, FollowedRecord(record: OpenRecord(file, kept), stream: nil))
      case .expired: return .absent
      case .broken(let error, _): return .damaged(error)
      }
    } catch let error as DamagedRecord {
      return .damaged(error.error)
    }
  }
}
