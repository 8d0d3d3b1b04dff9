internal import BlobRecord
internal import Posix

/// One way of reading a record, in whichever engine has it.
///
/// A value instead of a closure: a closure would copy the path, whose texts are counted, on each load.
protocol RecordLookup {
  associatedtype Content
  /// Of the record, by the arrangement of any directory.
  var path: RecordPath { get }

  /// Reads the record in the packs.
  ///
  /// - Parameter name: the path in this directory.
  /// - Returns: nil if no entry leads to a record of the name: a file may.
  func packed(_ name: RecordPath, _ packs: PackRecords, _ mode: ReadMode) throws -> Reading<Content>?

  /// Reads the record's file.
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

/// A whole record that is live.
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

/// The header of a record that is live.
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

/// A live record that is kept open for reads of its payload. It always may block.
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

/// As `OpenLookup`, also a record that is being written.
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
  /// A packed record as a file of its own without a name, which is as small.
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
