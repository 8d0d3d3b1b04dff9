internal import BlobRecord
internal import PosixFiles
internal import SystemPackage

/// A walk over everything in a cache directory, one entry at a time: what is read of a file is its header, and what is
/// held in memory are two open directories.
///
/// Entries made or removed during the walk may or may not be met.
final class RecordWalk {
  /// What the walk meets.
  enum Item {
    case record(RecordEntry)
    /// A temporary file, in the current directory.
    case temporary(name: String)
    /// Something that is not ours, by its path below the root.
    case foreign(String)
    /// All of a subdirectory was met; it is still the current directory.
    case endOfSubdirectory(String)
  }

  private let root: RootDirectory.Opened
  private let layout: RecordLayout
  private let defaultExpiration: Int64
  private let now: UnixTime
  private let fileNamePrefix: String
  /// Which entries of the root, subdirectories among them, to look at.
  private let includes: (String) -> Bool

  private var rootStream: DirectoryStream?
  private var subdirectory: Directory?
  private var subdirectoryName = ""
  private var subdirectoryStream: DirectoryStream?
  /// What opening the only subdirectory has come to, if not to a listing.
  private var pending: Item?

  /// - Parameter fileNamePrefix: with it, only records whose names begin so, and nothing else, is met.
  init(
    _ root: RootDirectory.Opened, layout: RecordLayout, defaultExpiration: Int64, now: UnixTime,
    fileNamePrefix: String = "", includes: @escaping (String) -> Bool = { _ in true }
  ) throws {
    self.root = root
    self.layout = layout
    self.defaultExpiration = defaultExpiration
    self.now = now
    self.fileNamePrefix = fileNamePrefix
    self.includes = includes
    // A prefix of two characters or more lies in one subdirectory, and the root need not be listed.
    let only = layout.subdirectory(ofFileName: fileNamePrefix)
    if only.isEmpty {
      rootStream = try root.directory.entries()
    } else {
      pending = try enter(only)
    }
  }

  /// - Returns: nil at the end.
  func next() throws -> Item? {
    if let item = pending.take() { return item }
    while true {
      if subdirectory != nil {
        if let entry = try subdirectoryStream?.next() {
          if let item = try item(for: entry) { return item }
        } else {
          let name = subdirectoryName
          if subdirectoryStream != nil {
            subdirectoryStream = nil
            return .endOfSubdirectory(name)
          }
          subdirectory = nil
        }
      } else {
        guard let entry = try rootStream?.next() else { return nil }
        if let item = try rootItem(for: entry) { return item }
      }
    }
  }

  /// Whether the item that was met last lies in a subdirectory.
  var isInSubdirectory: Bool { subdirectory != nil }

  /// The directory of the item that was met last.
  func withCurrentDirectory<Result>(_ body: (borrowing Directory) throws -> Result) rethrows -> Result {
    if subdirectory != nil { return try body(subdirectory!) }
    return try body(root.directory)
  }

  private func enter(_ name: String) throws -> Item? {
    do {
      guard let opened = try root.directory.openSubdirectory(name) else { return nil }
      subdirectoryStream = try opened.entries()
      subdirectory = consume opened
    } catch {
      switch error.errno {
      // The file system had not said what it is: no directory, it turns out, or a link.
      case .notDirectory, .tooManySymbolicLinkLevels: return fileNamePrefix.isEmpty ? .foreign(name) : nil
      case .noSuchFileOrDirectory: return nil
      default:
        return .record(RecordEntry(unreadable: name, BlobStoreError(error, operation: "list", key: nil)))
      }
    }
    subdirectoryName = name
    return nil
  }

  private func rootItem(for entry: DirectoryEntry) throws -> Item? {
    guard includes(entry.name) else { return nil }
    if entry.isNameExact, entry.kind == .directory || entry.kind == .unknown, layout.isSubdirectory(entry.name) {
      let mayHoldMatches = entry.name.utf8.starts(with: fileNamePrefix.utf8)
      return mayHoldMatches ? try enter(entry.name) : nil
    }
    if entry.name == Quarantine.directoryName, entry.kind == .directory || entry.kind == .unknown { return nil }
    if entry.name == ControlFile.name, entry.kind == .regular || entry.kind == .unknown { return nil }
    return try item(for: entry)
  }

  private func item(for entry: DirectoryEntry) throws -> Item? {
    let isMatch = entry.name.utf8.starts(with: fileNamePrefix.utf8)
    let name = subdirectory == nil ? entry.name : subdirectoryName + "/" + entry.name
    let isOfOtherKind = entry.kind == .directory || entry.kind == .other
    if TemporaryFile.isName(entry.name), !isOfOtherKind {
      return fileNamePrefix.isEmpty ? .temporary(name: entry.name) : nil
    }
    guard !isOfOtherKind, entry.isNameExact, isMatch,
      let path = layout.path(ofFileName: entry.name, in: subdirectory == nil ? "" : subdirectoryName)
    else { return fileNamePrefix.isEmpty ? .foreign(name) : nil }
    switch try withCurrentDirectory({ directory in
      try RecordExamination(path, in: directory, of: root, layout, defaultExpiration, now)
    }) {
    case .absent: return nil
    case .foreign: return fileNamePrefix.isEmpty ? .foreign(name) : nil
    case .record(let entry): return .record(entry)
    }
  }
}

/// What lies at the place of a record, looked at once.
enum RecordExamination {
  case absent
  case foreign
  case record(RecordEntry)

  /// System calls: open, fstat, read, close.
  init(
    _ path: RecordPath, in directory: borrowing Directory, of root: RootDirectory.Opened, _ layout: RecordLayout,
    _ defaultExpiration: Int64, _ now: UnixTime
  ) throws {
    do {
      switch try directory.openFile(path.fileName, for: .read) {
      case .absent: self = .absent
      case .notRegular: self = .foreign
      case .regular(let file, let status):
        guard root.owns(status) else {
          self = .foreign
          return
        }
        self = .record(
          RecordEntry(
            path: path, key: layout.naming.key(ofFileName: path.fileName), fileSize: status.size,
            modified: UnixTime(seconds: status.modifiedSeconds), stored: try file.readHeader(), now: now,
            defaultExpiration: defaultExpiration))
      }
    } catch {
      // One file that cannot be read does not end a walk over the others.
      self = .record(
        RecordEntry(unreadable: path.relative, path: path, BlobStoreError(error, operation: "read", key: nil)))
    }
  }
}
