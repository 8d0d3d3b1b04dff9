internal import BlobRecord
internal import PosixFiles
public import SystemPackage

extension BlobStore {
  /// Stores every file of a directory, which stays as it is: a plain one, or another library's cache.
  ///
  /// Links and what is no regular file are not followed, names that begin with a dot are passed over, and so is this
  /// cache where it lies below. A file that cannot be imported does not end the import, nor does a directory below that
  /// cannot be listed: it is a finding.
  ///
  /// - Parameter visit: receives what became of each file.
  /// - Throws: `sourceMissing` if there is no such directory, or it is this cache; `fileSystem` if it cannot be listed.
  /// - Complexity: reads every file once, 256 KiB at a time; a descriptor for each directory on the way down.
  @discardableResult
  public func importFiles(
    from directory: FilePath, _ options: ImportOptions = ImportOptions(), _ visit: (ImportFinding) -> Void = { _ in }
  ) throws(BlobStoreError) -> ImportReport {
    try reporting("import") {
      guard let source = try Directory(at: directory, files: root.files) else {
        throw BlobStoreError(.sourceMissing, "there is no such directory", path: directory)
      }
      guard try !isRoot(source) else {
        throw BlobStoreError(.sourceMissing, "a cache is not imported into itself", path: directory)
      }
      var report = ImportReport()
      try importFiles(in: source, at: "", options) { finding in
        report.add(finding)
        visit(finding)
      }
      return report
    }
  }
}

extension BlobStore {
  private func isRoot(_ directory: borrowing Directory) throws -> Bool {
    guard let root = try root.opened() else { return false }
    let (mine, other) = (try root.directory.status(), try directory.status())
    return mine.deviceID == other.deviceID && mine.inode == other.inode
  }

  /// - Parameter prefix: the directory's path below the one that is imported, with a slash at its end, or empty.
  private func importFiles(
    in directory: borrowing Directory, at prefix: String, _ options: ImportOptions, _ visit: (ImportFinding) -> Void
  ) throws {
    var entries = try directory.entries()
    while let entry = try entries.next() {
      let path = prefix + entry.name
      let canBeADirectory = entry.kind == .directory || entry.kind == .unknown
      if !entry.isNameExact || entry.name.utf8.first == UInt8(ascii: ".") {
        visit(.skipped(FilePath(path)))
      } else if canBeADirectory, options.format.hasSubdirectories,
        importSubdirectory(entry.name, of: directory, at: path, options, visit)
      {
        continue
      } else {
        visit(importFile(entry.name, in: directory, at: path, options))
      }
    }
  }

  /// - Returns: false if it is none.
  private func importSubdirectory(
    _ name: String, of directory: borrowing Directory, at path: String, _ options: ImportOptions,
    _ visit: (ImportFinding) -> Void
  ) -> Bool {
    do {
      guard let subdirectory = try Self.openSubdirectory(name, of: directory) else { return false }
      guard try !isRoot(subdirectory) else {
        visit(.skipped(FilePath(path)))
        return true
      }
      try importFiles(in: subdirectory, at: path + "/", options, visit)
    } catch {
      visit(.failed(FilePath(path), BlobStoreError(error, operation: "import", key: nil)))
    }
    return true
  }

  private static func openSubdirectory(
    _ name: String, of directory: borrowing Directory
  ) throws(FileError) -> Directory? {
    do {
      return try directory.openSubdirectory(name)
    } catch {
      // The file system had not said what it is: no directory, it turns out, or a link.
      guard [.notDirectory, .tooManySymbolicLinkLevels].contains(error.errno) else { throw error }
      return nil
    }
  }

  private func importFile(
    _ name: String, in directory: borrowing Directory, at path: String, _ options: ImportOptions
  ) -> ImportFinding {
    do {
      return try tryToImportFile(name, in: directory, at: path, options)
    } catch {
      let key = options.format.key(ofFileAt: path)
      return .failed(FilePath(path), BlobStoreError(error, operation: "import", key: key))
    }
  }

  private func tryToImportFile(
    _ name: String, in directory: borrowing Directory, at relativePath: String, _ options: ImportOptions
  ) throws -> ImportFinding {
    let path = FilePath(relativePath)
    guard let key = options.format.key(ofFileAt: relativePath) else { return .skipped(path) }
    switch try directory.openFile(name, for: .read) {
    case .absent: return .skipped(path)
    case .notRegular: return .skipped(path)
    case .regular(let file, let status):
      return try importContent(of: file, modified: status.modifiedSeconds, at: path, as: key, options)
    }
  }

  private func importContent(
    of file: consuming OpenFile, modified: Int64, at path: FilePath, as key: BlobKey, _ options: ImportOptions
  ) throws -> ImportFinding {
    var timeToLive = options.timeToLive
    if let limit = try options.format.ageLimit(of: file) {
      let rest = limit - Double(configuration.now().seconds.saturatingSubtracting(modified))
      guard rest > 0 else { return .expired(path) }
      timeToLive = .seconds(Int64(exactly: rest.rounded(.up)) ?? .max)
    }
    if try !options.replacing && isLive(key) { return .present(path, key) }
    let input = file.release()
    // Nothing was written through it, so closing it loses nothing.
    defer { try? input.close() }
    let byteCount = try store(contentsOf: input, for: key, ttl: timeToLive)
    return .imported(path, key, byteCount: byteCount)
  }

  /// A damaged blob is not: what is imported may take its place.
  private func isLive(_ key: BlobKey) throws -> Bool {
    do {
      return try contains(key)
    } catch  where error.code == .damaged {
      return false
    }
  }
}
