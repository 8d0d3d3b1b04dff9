internal import BlobRecord
internal import Posix
internal import SystemPackage

/// One look at a record's place: it has nothing, a foreign file or a record.
enum Finding: ~Copyable {
  case absent
  /// nil if it is no regular file.
  case foreign(BlobStore.ForeignRecord?)
  case record(FoundRecord)

  /// Looks at what has a record's name.
  ///
  /// System calls: `openat(2)`, `fstat(2)`, `pread(2)`, `close(2)`; `pread(2)` for an extension.
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
      // The status may be unreadable too, for the same reason. The first error is reported.
      let status = (try? directory.status(of: name.fileName)) ?? nil
      if let status, status.type != .regular || !open.ownership.owns(status) {
        self = .foreign(status.type == .regular ? BlobStore.ForeignRecord(name, status, in: open) : nil)
      } else {
        self = .record(FoundRecord(name, unreadable: error, status))
      }
    }
  }
}
