internal import BlobRecord
internal import Posix
public import SystemPackage

extension BlobStore {
  /// Stores every file of a directory, which may be a plain directory or another library's cache, and is not changed.
  ///
  /// Only regular files are read, and links are not followed. Names that begin with a dot are skipped, and so is this
  /// cache if it is inside the directory. If a file cannot be imported, a directory cannot be listed or a path is
  /// longer than a key may be, the failure is a finding and the import continues. If the cache has a database, its
  /// rows are imported. The installed SQLite opens the database read-only.
  ///
  /// - Parameters:
  ///   - directory: The directory whose files are imported.
  ///   - options: The format of the directory, and the lifetime and treatment of the blobs.
  ///   - visit: A closure that receives the result of each file.
  /// - Throws: `sourceMissing` if the directory does not exist or is this cache; `fileSystem` if it cannot be listed;
  ///   `sourceUnreadable` if its database cannot be read.
  /// - Complexity: Reads every file once, 256 KiB at a time, with few descriptors. Stores the names of
  ///   subdirectories.
  @discardableResult
  public func importFiles(
    from directory: FilePath, _ options: ImportOptions = ImportOptions(), _ visit: (ImportFinding) -> Void = { _ in }
  ) throws(BlobStoreError) -> ImportReport {
    try withErrorContext("import") {
      guard let source = try Directory(at: directory, files: core.root.files) else {
        throw BlobStoreError(.sourceMissing, "there is no such directory", path: directory)
      }
      guard try !isRoot(source) else {
        throw BlobStoreError(.sourceMissing, "a cache is not imported into itself", path: directory)
      }
      var report = ImportReport()
      func note(_ finding: ImportFinding) {
        report.add(finding)
        visit(finding)
      }
      if let layout = options.format.database {
        try importRows(of: source, layout, options, note)
      } else {
        try importFiles(below: source, options, note)
      }
      return report
    }
  }
}

extension BlobStore {
  private func isRoot(_ directory: borrowing Directory) throws -> Bool {
    guard let open = try core.root.opened() else { return false }
    let (mine, other) = (try open.directory.status(), try directory.status())
    return mine.deviceID == other.deviceID && mine.inode == other.inode
  }

  /// Imports files with an explicit stack, because a tree may be deeper than a thread's stack allows.
  private func importFiles(
    below source: consuming Directory, _ options: ImportOptions, _ visit: (ImportFinding) -> Void
  ) throws {
    var descent = DirectoryDescent(from: source)
    /// The subdirectories that are still to be imported, for each directory on the path of the descent.
    var subdirectories: [[String]] = [[]]
    try importFiles(in: descent.current().directory, at: "", options, &subdirectories[0], visit)
    while let depth = subdirectories.indices.last {
      guard let name = subdirectories[depth].popLast() else {
        subdirectories.removeLast()
        descent.ascend()
        continue
      }
      let path = descent.prefix + name
      do {
        try checkLength(ofKeysBelow: path)
        guard try descent.descend(to: name) else {
          visit(importFile(name, in: try descent.current().directory, at: path, options))
          continue
        }
      } catch {
        visit(.failed(FilePath(path), BlobStoreError(error, operation: "import", key: nil)))
        continue
      }
      subdirectories.append([])
      do {
        let opened = try descent.current()
        if try isRoot(opened.directory) {
          visit(.skipped(FilePath(path)))
        } else {
          try importFiles(in: opened.directory, at: descent.prefix, options, &subdirectories[depth + 1], visit)
        }
      } catch {
        visit(.failed(FilePath(path), BlobStoreError(error, operation: "import", key: nil)))
      }
    }
  }

  /// Throws `tooLong` or `longerThanKept` if no file below a directory has a path that can be a key.
  private func checkLength(ofKeysBelow path: String) throws(KeyError) {
    do {
      _ = try core.path(for: BlobKey(path + "/_"))
    } catch {
      switch error {
      case .tooLong, .longerThanKept: throw error
      default: return
      }
      // The other errors are reported for each file.
    }
  }

  /// Imports the files of a directory whose path is empty or ends with a slash, and collects possible subdirectories.
  private func importFiles(
    in directory: borrowing Directory, at prefix: String, _ options: ImportOptions, _ subdirectories: inout [String],
    _ visit: (ImportFinding) -> Void
  ) throws {
    var entries = try directory.entries()
    while let entry = try entries.next() {
      let canBeADirectory = entry.kind == .directory || entry.kind == .unknown
      if !entry.isNameExact || entry.name.utf8.first == UInt8(ascii: ".") {
        visit(.skipped(FilePath(prefix + entry.name)))
      } else if canBeADirectory, options.format.hasSubdirectories {
        subdirectories.append(entry.name)
      } else {
        visit(importFile(entry.name, in: directory, at: prefix + entry.name, options))
      }
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
      return try importContent(of: file, status, at: path, as: key, options)
    }
  }

  func importContent(
    of file: consuming OpenFile, _ status: Stat, at path: FilePath, as key: BlobKey, _ options: ImportOptions,
    extendedData: Data? = nil
  ) throws -> ImportFinding {
    var lifetime: ImportedLifetime?
    let now = configuration.now()
    if let rest = try options.format.secondsLeft(of: file, modified: status.modifiedSeconds, now: now) {
      guard rest > 0 else { return .expired(path) }
      lifetime = Int64(exactly: rest.rounded(.up)).map { .limited(.seconds($0)) } ?? .never
    }
    let input = file.release()
    // Nothing was written through the descriptor, so an error of closing it loses no data.
    defer { try? input.close() }
    return try importPayload(
      byteCount: status.size, at: path, as: key, options, lifetime: lifetime, extendedData: extendedData
    ) { timeToLive in
      try store(contentsOf: input, for: key, ttl: timeToLive, extendedData: extendedData)
    }
  }

  /// Stores one payload or, in a dry run, checks whether it could be stored. `lifetime` is the file's own.
  func importPayload(
    byteCount: Int64, at path: FilePath, as key: BlobKey, _ options: ImportOptions, lifetime: ImportedLifetime?,
    extendedData: Data?, _ store: (Duration?) throws -> Void
  ) throws -> ImportFinding {
    if try !options.replacing && isLive(key) { return .present(path, key) }
    let lifetime = lifetime ?? options.lifetime ?? options.format.lifetimeWithoutLimit
    if options.dryRun {
      _ = try core.path(for: key)
      try Records(core).checkExtendedData(extendedData ?? Data())
      try Records(core).checkSize(byteCount)
    } else {
      try store(lifetime.timeToLive)
    }
    return .imported(path, key, byteCount: byteCount, lifetime: lifetime)
  }

  /// A damaged blob does not count as live, because the imported one may replace it.
  private func isLive(_ key: BlobKey) throws -> Bool {
    do {
      return try contains(key)
    } catch  where error.code == .damaged {
      return false
    }
  }
}

/// A path from a directory down through subdirectories, of which only the lowest directories are open.
///
/// Other directories are opened again from the top when the descent returns to them, and must not have been replaced.
struct DirectoryDescent {
  private struct Step {
    let name: String
    let deviceID: DeviceID
    let inode: Inode
    /// The directory, or `nil` while others below it are open.
    var directory: OpenSubdirectory?
  }

  /// The number of directories that are open, in addition to the first.
  static let openCount = 16

  private let top: OpenSubdirectory
  private var steps: [Step] = []
  /// The path below the first directory, which is empty or ends with a slash.
  private(set) var prefix = ""

  init(from top: consuming Directory) {
    self.top = OpenSubdirectory(top)
  }

  /// Returns the current directory. Throws ENOENT if it no longer exists.
  mutating func current() throws(FileError) -> OpenSubdirectory {
    guard let last = steps.indices.last else { return top }
    if let directory = steps[last].directory { return directory }
    var depth = steps.lastIndex { $0.directory != nil } ?? -1
    while depth < last {
      let upper = depth < 0 ? top : steps[depth].directory ?? top
      depth += 1
      steps[depth].directory = try Self.reopened(steps[depth], in: upper.directory)
      closeOthers(than: depth)
    }
    return steps[last].directory ?? top
  }

  private static func reopened(_ step: Step, in upper: borrowing Directory) throws(FileError) -> OpenSubdirectory {
    guard let found = try upper.openSubdirectory(step.name) else { throw missing(step, in: upper) }
    let status = try found.status()
    guard status.deviceID == step.deviceID, status.inode == step.inode else { throw missing(step, in: upper) }
    return OpenSubdirectory(found)
  }

  private static func missing(_ step: Step, in upper: borrowing Directory) -> FileError {
    FileError(.openDirectory, Location(upper.path, step.name), .noSuchFileOrDirectory)
  }

  private mutating func closeOthers(than depth: Int) {
    if depth >= Self.openCount { steps[depth - Self.openCount].directory = nil }
  }

  /// Descends to a subdirectory, or returns `false` if the name is not a directory but, for example, a link.
  mutating func descend(to name: String) throws(FileError) -> Bool {
    let upper = try current()
    let opened: Directory?
    do {
      opened = try upper.directory.openSubdirectory(name)
    } catch {
      guard [.notDirectory, .tooManySymbolicLinkLevels].contains(error.errno) else { throw error }
      return false
    }
    guard let opened else { return false }
    let status = try opened.status()
    steps.append(
      Step(name: name, deviceID: status.deviceID, inode: status.inode, directory: OpenSubdirectory(opened)))
    prefix += name + "/"
    closeOthers(than: steps.count - 1)
    return true
  }

  mutating func ascend() {
    guard let step = steps.popLast() else { return }
    prefix.unicodeScalars.removeLast(step.name.unicodeScalars.count + 1)
  }
}
