internal import SystemPackage

extension Directory {
  /// Makes the regular file `name` with these bytes, or replaces it.
  ///
  /// A process that opens the name finds the whole old file or the whole new one. Permissions are what the process's
  /// mask leaves of 0666.
  ///
  /// - Throws: EEXIST if the name belongs to something else, such as a device or a link, which is left alone.
  package func replaceFile(_ name: String, with bytes: RawSpan) throws(FileError) {
    if let status = try status(of: name), status.type != .regular {
      throw FileError(.rename, Location(path, name), .fileExists)
    }
    let temporaryName = ".blobcache-" + String(UInt64.random(in: 0 ... .max), radix: 16)
    let file = try createFile(temporaryName, permissions: FilePermissions(rawValue: 0o666))
    do {
      try file.write(bytes, at: 0)
      try file.close()
      try rename(temporaryName, to: name, in: self)
    } catch {
      // The error at hand is the one to report; a file that cannot be unlinked either stays under its own name.
      _ = try? unlink(temporaryName)
      throw error
    }
  }
}
