internal import Posix
internal import SystemPackage

extension OpenRoot {
  /// A file without a name, with these bytes as its content.
  ///
  /// System calls: `memfd_create(2)`, `fchmod(2)`, `pwrite(2)`; on Darwin, those that make a temporary file and unlink it.
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
