internal import BlobRecord
internal import Posix

/// One way of reading a record, in whichever engine has it. A value instead of closures, as `PackedLook`.
protocol EngineLook {
  associatedtype Content

  /// - Returns: nil if no entry leads to a record of the name: a file may.
  func packed(_ name: RecordPath, _ packs: PackRecords, beside files: FileRecords) throws -> Reading<Content>?
  func file(_ name: RecordPath, _ files: FileRecords, in open: OpenRoot) throws -> Reading<Content>
}

/// A whole record.
struct WholeLook: EngineLook {
  let key: BlobKey
  let now: UnixTime
  let asksStatus: Bool

  func packed(
    _ name: RecordPath, _ packs: PackRecords, beside files: FileRecords
  ) throws -> Reading<RecordContent>? {
    try packs.read(name, of: key, at: now)
  }

  func file(_ name: RecordPath, _ files: FileRecords, in open: OpenRoot) throws -> Reading<RecordContent> {
    try files.read(name, of: key, in: open, at: now, asksStatus: asksStatus)
  }
}

/// The header alone.
struct HeadLook: EngineLook {
  let now: UnixTime

  func packed(_ name: RecordPath, _ packs: PackRecords, beside files: FileRecords) throws -> Reading<Void>? {
    try packs.readHeader(of: name, at: now)
  }

  func file(_ name: RecordPath, _ files: FileRecords, in open: OpenRoot) throws -> Reading<Void> {
    try files.readHeader(of: name, in: open, at: now)
  }
}

/// A record that is kept open for reads of its payload.
struct OpenLook: EngineLook {
  let now: UnixTime

  func packed(_ name: RecordPath, _ packs: PackRecords, beside files: FileRecords) throws -> Reading<OpenRecord>? {
    try files.openPacked(name, packs, at: now)?.whole
  }

  func file(_ name: RecordPath, _ files: FileRecords, in open: OpenRoot) throws -> Reading<OpenRecord> {
    try files.openLive(name, in: open, at: now)
  }
}

/// As `OpenLook`, also a record that is being written.
struct FollowedLook: EngineLook {
  let now: UnixTime

  func packed(
    _ name: RecordPath, _ packs: PackRecords, beside files: FileRecords
  ) throws -> Reading<FollowedRecord>? {
    try files.openPacked(name, packs, at: now)
  }

  func file(_ name: RecordPath, _ files: FileRecords, in open: OpenRoot) throws -> Reading<FollowedRecord> {
    try files.openFollowed(name, in: open, at: now)
  }
}

extension FileRecords {
  /// A packed record as a file of its own without a name, which is as small.
  fileprivate func openPacked(
    _ name: RecordPath, _ packs: PackRecords, at now: UnixTime
  ) throws -> Reading<FollowedRecord>? {
    do {
      guard let bytes = try packs.asFile(name) else { return nil }
      let file = try packs.open.memoryFile(bytes, names: core.temporaryNames)
      let status = try file.status()
      let (verdict, kept) = try judgeWithExtension(file, status, at: name, now: now)
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
