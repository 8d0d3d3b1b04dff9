internal import BlobRecord
internal import Posix

/// A record's file that is kept open, so that its payload stays as it was found.
///
/// A store puts another file in its place, and no store overwrites a file that is open somewhere (Spec/Recycling.md).
final class OpenRecord: Sendable {
  let file: OpenFile

  init(_ file: consuming OpenFile) { self.file = file }
}

extension FileRecords {
  /// Opens a record, judges it by its header, and keeps it open.
  func openLive(_ name: RecordPath, in open: OpenRoot, at now: UnixTime) throws -> Reading<OpenRecord> {
    do {
      guard case .regular(let file, let status) = try self.open(name, in: open, for: .read) else { return .absent }
      switch try file.judgeHeader(core.judge(at: now), RecordFacts(fileSize: status.size, nameDigest: name.digest)) {
      case .sound(let header): return .live(header, OpenRecord(file))
      case .expired: return .absent
      case .broken(let error, _): return .damaged(error)
      }
    } catch let error as DamagedRecord {
      return .damaged(error.error)
    }
  }
}
