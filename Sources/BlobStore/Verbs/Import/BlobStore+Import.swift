internal import BlobRecord
internal import Posix
public import SystemPackage

extension BlobStore {
  /// Stores every file of a directory: a plain one, or another library's cache. The directory stays as it is.
  ///
  /// Only regular files are read, and links are not followed. Names that begin with a dot are passed over, and so is
  /// this cache where it lies below. A failure below the directory is a finding, and the import goes on. Such are a
  /// file that cannot be imported, a directory that cannot be listed, and paths longer than a key may be.
  ///
  /// Of a cache with a database, the rows are imported. The installed SQLite opens the database for reading only.
  ///
  /// - Parameters:
  ///   - directory: the directory whose files are imported.
  ///   - options: which files, under which keys, and for how long.
  ///   - visit: receives what became of each file.
  /// - Throws: `sourceMissing` if there is no such directory, or it is this cache; `fileSystem` if it cannot be listed;
  ///   `sourceUnreadable` if its database cannot be read.
  /// - Complexity: reads every file once, 256 KiB at a time, with a few descriptors; remembers the names of
  ///   subdirectories on the way down.
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

  /// Walks on a stack of its own: a tree may be deeper than a thread's stack.
  private func importFiles(
    below source: consuming Directory, _ options: ImportOptions, _ visit: (ImportFinding) -> Void
  ) throws {
    var descent = DirectoryDescent(from: source)
    /// Names of subdirectories that are still to be imported, for each directory on the way down.
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

  /// - Throws: `tooLong` if no file below a directory has a path that can be a key.
  private func checkLength(ofKeysBelow path: String) throws(KeyError) {
    do {
      _ = try core.path(for: BlobKey(path + "/_"))
    } catch {
      switch error {
      case .tooLong, .longerThanKept: throw error
      default: return
      }
      // Each file is told why it has no name.
    }
  }

  /// - Parameters:
  ///   - prefix: the directory's path below the one that is imported, with a slash at its end, or empty.
  ///   - subdirectories: receives the names of entries that may be subdirectories.
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
    // Nothing was written through it, so closing it loses nothing.
    defer { try? input.close() }
    return try importPayload(
      byteCount: status.size, at: path, as: key, options, lifetime: lifetime, extendedData: extendedData
    ) { timeToLive in
      try store(contentsOf: input, for: key, ttl: timeToLive, extendedData: extendedData)
    }
  }

  /// Stores one payload, or in a dry run finds out whether it would be.
  ///
  /// - Parameters:
  ///   - byteCount: its size, as far as that is known before.
  ///   - lifetime: by its own limit; nil if it has none.
  func importPayload(
    byteCount: Int64, at path: FilePath, as key: BlobKey, _ options: ImportOptions, lifetime: ImportedLifetime?,
    extendedData: Data?, _ store: (Duration?) throws -> Void
  ) throws -> ImportFinding {
    if try !options.replacing && isLive(key) { return .present(path, key) }
    let lifetime = lifetime ?? options.lifetime ?? options.format.lifetimeWithoutLimit
    if options.dryRun {
      _ = try core.path(for: key)
      try core.checkExtendedData(extendedData ?? Data())
      try core.checkSize(byteCount)
    } else {
      try store(lifetime.timeToLive)
    }
    return .imported(path, key, byteCount: byteCount, lifetime: lifetime)
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

/// A way down from a directory: each step leads to a subdirectory of the one before, and back.
///
/// However deep it leads, only the lowest directories are open. One above them is opened again, from the top, when the way
/// leads back to it, and must be the one that it was.
struct DirectoryDescent {
  private struct Step {
    let name: String
    let deviceID: DeviceID
    let inode: Inode
    /// nil while others below it are open.
    var directory: OpenSubdirectory?
  }

  /// Directories that are open, besides the first.
  static let openCount = 16

  private let top: OpenSubdirectory
  private var steps: [Step] = []
  /// The path below the first directory: empty there, else with a slash at its end.
  private(set) var prefix = ""

  init(from top: consuming Directory) {
    self.top = OpenSubdirectory(top)
  }

  /// Where it has led to.
  ///
  /// - Throws: ENOENT if that is not there any more.
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

  /// Goes down.
  ///
  /// - Returns: false if the name is no directory's: a link's, for example.
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

  /// Goes back up.
  mutating func ascend() {
    guard let step = steps.popLast() else { return }
    prefix.unicodeScalars.removeLast(step.name.unicodeScalars.count + 1)
  }
}
