internal import BlobRecord
internal import Posix

/// A record's file that is kept open, so that its payload stays as it was found.
///
/// A store puts another file in its place, and no store overwrites a file that is open somewhere (Spec/Recycling.md).
final class OpenRecord: Sendable {
  let file: OpenFile
  /// What lay behind the payload when it was opened; nil for nothing.
  let `extension`: RecordExtension?
  /// nil of a file that was written to just before.
  let version: FileVersion?

  init(_ file: consuming OpenFile, _ extension: RecordExtension?, _ version: FileVersion? = nil) {
    self.file = file
    self.extension = `extension`
    self.version = version
  }
}

extension FileRecords {
  /// Opens a record, judges it by its header and its extension, and keeps it open.
  func openLive(
    _ name: RecordPath, in open: OpenRoot, at now: UnixTime
  ) throws -> Reading<OpenRecord> {
    do {
      guard case .regular(let file, let status) = try self.open(name, in: open, for: .read) else { return .absent }
      let (verdict, kept) = try judgeWithExtension(file, status, at: name, now: now)
      switch verdict {
      case .sound(let header): return .live(header, OpenRecord(file, kept, FileVersion(status)))
      case .expired: return .absent
      case .broken(let error, _): return .damaged(error)
      }
    } catch let error as DamagedRecord {
      return .damaged(error.error)
    }
  }
}
