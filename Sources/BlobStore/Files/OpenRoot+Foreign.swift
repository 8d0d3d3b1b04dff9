internal import BlobRecord
internal import Posix
internal import SystemPackage

extension BlobStore.ForeignRecord {
  init(_ path: RecordPath, _ status: Stat, in open: OpenRoot) {
    self.init(path, status, in: open.directory.path, recordUser: open.ownership.ownerOfNewFiles)
  }
}

extension OpenRoot {
  func foreignRecord(at path: RecordPath, in directory: borrowing Directory) throws -> BlobStore.ForeignRecord? {
    guard let status = try directory.status(of: path.fileName), status.type == .regular, !ownership.owns(status) else {
      return nil
    }
    return BlobStore.ForeignRecord(path, status, in: self)
  }

  /// Opens the file at a record's path. A foreign file that may not be opened counts as a file that is not regular.
  func openPassingOverForeign(_ path: RecordPath, for access: FileAccess) throws(FileError) -> OpenedFile {
    do {
      return try directory.openFile(path.fileName, in: path.subdirectory, for: access)
    } catch {
      guard foreignRecord(at: path, after: error) != nil else { throw error }
      return .notRegular
    }
  }

  /// Returns the foreign file that caused an error of opening a record. It is ignored, like other foreign files.
  func foreignRecord(at path: RecordPath, after error: FileError) -> BlobStore.ForeignRecord? {
    guard error.errno == .permissionDenied else { return nil }
    do {
      return try subdirectory(path.subdirectory).flatMap { try foreignRecord(at: path, in: $0.directory) }
    } catch {
      // The caller reports its own error instead.
      return nil
    }
  }
}

extension OpenRoot {
  /// Creates an unnamed file with the given content. System calls: `memfd_create(2)`, `fchmod(2)`, `pwrite(2)`. On
  /// Darwin, a temporary file is created and unlinked.
  func memoryFile(_ bytes: [UInt8], names: TemporaryNames) throws -> OpenFile {
    if let file = try directory.createMemoryFile() {
      try file.write(unsafe bytes.span.bytes, at: 0)
      return file
    }
    let name = names.next()
    let permissions = FilePermissions.ownerReadWrite
    let file = try directory.createFile(name, permissions: permissions)
    _ = try directory.unlink(name)
    try file.write(unsafe bytes.span.bytes, at: 0)
    return file
  }
}
