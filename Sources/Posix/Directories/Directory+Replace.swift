internal import SystemPackage

extension Directory {
  /// A name for `replaceFile`, which no other call gives.
  package static func temporaryName() -> String {
    ".blobcache-" + String(UInt64.random(in: 0 ... .max), radix: 16)
  }

  /// Makes the regular file `name`, or replaces it.
  ///
  /// A process that opens the name finds the whole old file or the whole new one. The new one has the permissions of the
  /// old one, or what the process's mask leaves of 0666.
  ///
  /// - Parameters:
  ///   - temporaryName: the file's until it is whole.
  ///   - write: fills the file.
  /// - Throws: what `write` throws; EEXIST if the name belongs to something else, such as a device or a link, which is
  ///   left alone.
  package func replaceFile(
    _ name: String, by temporaryName: String = Self.temporaryName(), _ write: (borrowing OpenFile) throws -> Void
  ) throws {
    let old = try status(of: name)
    if let old, old.type != .regular { throw FileError(.rename, Location(path, name), .fileExists) }
    // Before it has the old one's permissions, nobody else may open it, and so read later what is written.
    let file = try createFile(temporaryName, permissions: FilePermissions(rawValue: old == nil ? 0o666 : 0o600))
    do {
      if let old { try file.setPermissions(old.permissions) }
      try write(file)
      try file.close()
      try rename(temporaryName, to: name, in: self)
    } catch {
      // The error at hand is the one to report; a file that cannot be unlinked either stays under its own name.
      _ = try? unlink(temporaryName)
      throw error
    }
  }
}
