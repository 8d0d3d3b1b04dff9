internal import BlobRecord
internal import Posix
internal import SystemPackage

/// A record's file that is kept open so that its payload cannot change.
///
/// A store replaces the file, and no store overwrites a file that is open (Spec/Recycling.md).
final class OpenRecord: Sendable {
  let file: OpenFile
  /// The extension at the time of opening, if any.
  let `extension`: RecordExtension?
  /// The version of the file, or `nil` if this process has just written to it.
  let version: FileVersion?

  init(_ file: consuming OpenFile, _ extension: RecordExtension?, _ version: FileVersion? = nil) {
    self.file = file
    self.extension = `extension`
    self.version = version
  }
}

struct FollowedRecord {
  let record: OpenRecord
  /// The identity of the file of an unfinished stream, which its followers share, or `nil` for a complete record.
  let stream: FileIdentity?
}

extension Reading<FollowedRecord> {
  /// The reading without its stream, for a complete record.
  var whole: Reading<OpenRecord> {
    switch self {
    case .live(let header, let found): .live(header, found.record)
    case .damaged(let error): .damaged(error)
    case .absent: .absent
    }
  }
}

extension FileRecords {
  /// Opens a record, judges it by its header and its extension, and keeps it open.
  func openLive(
    _ name: RecordPath, in open: OpenRoot, at now: UnixTime
  ) throws -> Reading<OpenRecord> {
    try openFollowed(name, in: open, at: now, streams: false).whole
  }

  /// Opens a record as `openLive` does, or with `streams` also a record that is still being written.
  func openFollowed(
    _ name: RecordPath, in open: OpenRoot, at now: UnixTime, streams: Bool = true
  ) throws -> Reading<FollowedRecord> {
    do {
      guard case .regular(let file, let status) = try self.open(name, in: open, for: .read) else { return .absent }
      let (verdict, kept) = try judgeWithExtension(file, status, at: name, now: now)
      switch verdict {
      case .sound(let header):
        return .live(header, FollowedRecord(record: OpenRecord(file, kept, FileVersion(status)), stream: nil))
      case .expired: return .absent
      case .broken(.recordIsStreamAndBusy, let header?) where streams:
        let breach = try file.settled(.recordIsStreamAndBusy)
        guard breach == .recordIsStreamAndBusy else { return .damaged(breach) }
        // The rules that follow the rule for a complete payload have not been checked yet.
        if let digest = header.keyDigest, digest != name.digest {
          return .damaged(.keyMismatch(stated: digest, expected: name.digest))
        }
        return .live(header, FollowedRecord(record: OpenRecord(file, nil), stream: FileIdentity(status)))
      case .broken(let error, _): return .damaged(error)
      }
    } catch let error as DamagedRecord {
      return .damaged(error.error)
    }
  }
}

/// The result of looking up a record's path: nothing, a foreign file or a record.
enum Finding: ~Copyable {
  case absent
  /// A foreign file, or `nil` if it is not a regular file.
  case foreign(BlobStore.ForeignRecord?)
  case record(FoundRecord)

  /// System calls: `openat(2)`, `fstat(2)`, `pread(2)`, `close(2)`, and another `pread(2)` for an extension.
  init(
    _ name: RecordPath, in directory: borrowing Directory, of open: OpenRoot, by judge: RecordJudge,
    readsExtension: Bool = true
  ) {
    do {
      switch try directory.openFile(name.fileName, for: .read) {
      case .absent: self = .absent
      case .notRegular: self = .foreign(nil)
      case .regular(let file, let status):
        guard open.ownership.owns(status) else {
          self = .foreign(BlobStore.ForeignRecord(name, status, in: open))
          return
        }
        self = .record(
          try FoundRecord(
            name, file, status, isExposed: open.ownership.owners.expose(status), by: judge,
            readsExtension: readsExtension))
      }
    } catch {
      // The status may be unreadable for the same reason. The first error is reported.
      let status = (try? directory.status(of: name.fileName)) ?? nil
      if let status, status.type != .regular || !open.ownership.owns(status) {
        self = .foreign(status.type == .regular ? BlobStore.ForeignRecord(name, status, in: open) : nil)
      } else {
        self = .record(FoundRecord(name, unreadable: error, status))
      }
    }
  }
}
