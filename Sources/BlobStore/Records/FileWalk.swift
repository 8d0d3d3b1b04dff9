internal import BlobRecord
internal import Posix
internal import SystemPackage

/// A walk over the files of a cache directory, as a part of a `RecordWalk`. It keeps at most two directories open.
///
/// With `skim`, it allocates nothing for records that this closure finishes.
@safe final class FileWalk {
  enum Step {
    case item(RecordWalk.Item)
    /// The position of packed records in an ordered walk.
    case packs
    case end
  }

  let open: OpenRoot
  let scope: WalkScope
  private let fileNamePrefixBytes: [UInt8]
  /// A closure that returns whether a record with a digest may also be packed, or `nil` without packs.
  var mayBePacked: ((UInt64) -> Bool)?
  /// `RecordWalk.skim`.
  var skim: ((RecordGlance) throws -> Bool)?
  /// A closure that receives a subdirectory's name and returns whether the walk enters the subdirectory.
  var enters: ((String) throws -> Bool)?
  let head = UnsafeMutableRawBufferPointer.allocate(byteCount: RecordHeader.byteCount, alignment: 8)

  /// The number of entries of a subdirectory after which an ordered walk can stop in the middle of it.
  var smallestPart = Int.max
  var entriesOfSubdirectory = 0
  /// A Boolean value that indicates whether an earlier walk has returned the beginning of the current subdirectory.
  private(set) var leavesOutBeginning = false
  /// A Boolean value that indicates whether the walk has skipped the beginning of any subdirectory.
  private(set) var hasLeftOutBeginning = false

  private var rootStream: DirectoryStream?
  private var orderedEntries: OrderedEntries?
  /// The number of root entries with at least one returned item. In an ordered walk, entries of one digest count once.
  private(set) var entriesBegun = 0
  private var digestBegun: UInt64?
  private var subdirectory: Directory?
  private(set) var subdirectoryName = ""
  var subdirectoryBytes: [UInt8] = []
  private var subdirectoryStream: DirectoryStream?
  /// The item to return first if a walk by prefix cannot list the only subdirectory that it visits.
  private var pending: RecordWalk.Item?

  init(_ scope: WalkScope, in open: OpenRoot) throws {
    self.open = open
    self.scope = scope
    fileNamePrefixBytes = Array(scope.fileNamePrefix.utf8)
    if let start = scope.start {
      orderedEntries = OrderedEntries(from: start.digest)
      return
    }
    // Names with the same two initial characters share a subdirectory, so a walk by prefix need not list the root.
    let only = scope.layout.subdirectory(ofFileNamesBeginning: scope.fileNamePrefix)
    if only.isEmpty {
      rootStream = try open.directory.entries()
    } else {
      pending = try enter(only)
    }
  }

  deinit { unsafe head.deallocate() }

  func next() throws -> Step {
    if let item = pending.take() { return .item(item) }
    while true {
      if subdirectory != nil {
        if let item = try nextOfSubdirectory() { return .item(item) }
      } else if let step = try nextOfRoot() {
        return step
      }
    }
  }

  /// - Returns: The next item, or `nil` if the entry is skipped or the subdirectory has ended.
  private func nextOfSubdirectory() throws -> RecordWalk.Item? {
    guard subdirectoryStream != nil else {
      subdirectory = nil
      subdirectoryBytes = []
      return nil
    }
    do throws(FileError) {
      guard try subdirectoryStream!.advance() else {
        subdirectoryStream = nil
        return .endOfSubdirectory(subdirectoryName)
      }
      entriesOfSubdirectory += 1
    } catch {
      // A subdirectory that cannot be listed completely does not end the walk over the others.
      subdirectoryStream = nil
      return .record(RecordEntry(unreadable: subdirectoryName, BlobStoreError(error, operation: "list", key: nil)))
    }
    return try subdirectoryItem()
  }

  private func subdirectoryItem() throws -> RecordWalk.Item? {
    // Few of many names may have the prefix, so the others are rejected before a string is created.
    guard scope.fileNamePrefix.isEmpty || doesNameMatch(in: subdirectoryStream!) else { return nil }
    return switch try skimEntry(of: subdirectoryStream!, in: subdirectory!) {
    case .done: nil
    case .item(let item): item
    case .toBeMet: try item(for: entry(of: subdirectoryStream!))
    }
  }

  private func doesNameMatch(in stream: borrowing DirectoryStream) -> Bool {
    let prefix = fileNamePrefixBytes
    return stream.withEntryName { $0.starts(with: prefix) }
  }

  /// Returns `nil` if the entry is skipped, or is a subdirectory that the walk has entered.
  private func nextOfRoot() throws -> Step? {
    if orderedEntries != nil {
      guard let entry = try orderedEntries!.next(of: open.directory) else { return .end }
      guard entry.name != PackDirectory.name || mayBePacked == nil else {
        beginEntry()
        return .packs
      }
      return try rootItem(for: entry).map { .item($0) }
    }
    guard try rootStream?.advance() == true else { return .end }
    return switch try skimEntry(of: rootStream!, in: open.directory) {
    case .done: nil
    case .item(let item): .item(item)
    case .toBeMet: try rootItem(for: entry(of: rootStream!)).map { .item($0) }
    }
  }

  private func entry(of stream: borrowing DirectoryStream) -> DirectoryEntry { stream.entry }

  /// The position at which another ordered walk continues: the first entry that was not returned completely.
  var position: WalkPosition {
    guard let orderedEntries else { return WalkPosition(digest: 0) }
    if isBetweenEntries { return WalkPosition(digest: orderedEntries.digest &+ 1) }
    var position = WalkPosition(digest: orderedEntries.digest)
    // A subdirectory that cannot be identified is walked again.
    if hasMetPart, let inode = try? subdirectory?.status().inodeNumber {
      position.inode = inode
      position.offset = offset(in: subdirectoryStream!)
    }
    return position
  }

  private func offset(in stream: borrowing DirectoryStream) -> Int64 { stream.position }

  /// A Boolean value that indicates whether another walk can continue in the middle of the current subdirectory.
  var hasMetPart: Bool {
    DirectoryStream.keepsPositions && subdirectoryStream != nil && entriesOfSubdirectory >= smallestPart
  }

  /// A Boolean value that indicates whether an ordered walk has continued at the beginning of the order.
  var hasWrapped: Bool { orderedEntries.map { $0.digest < $0.start } ?? false }

  /// A Boolean value that indicates whether the current root entry is finished, with all entries of its digest.
  var isBetweenEntries: Bool {
    subdirectoryStream == nil && orderedEntries?.hasMoreOfDigest != true
  }

  private func beginEntry() {
    if let digest = orderedEntries?.digest, digest == digestBegun { return }
    digestBegun = orderedEntries?.digest
    entriesBegun += 1
  }

  var skimmedPath: RecordPath? {
    if subdirectoryStream != nil {
      return scope.layout.path(ofFileName: entry(of: subdirectoryStream!).name, in: subdirectoryName)
    }
    return scope.layout.path(ofFileName: entry(of: rootStream!).name, in: "")
  }

  var isInSubdirectory: Bool { subdirectory != nil }

  /// Calls a closure with the directory of the last returned item.
  func withCurrentDirectory<Result: ~Copyable>(_ body: (borrowing Directory) throws -> Result) rethrows -> Result {
    if isInSubdirectory { return try body(subdirectory!) }
    return try body(open.directory)
  }

  private func enter(_ name: String) throws -> RecordWalk.Item? {
    do {
      guard let opened = try open.directory.openSubdirectory(name) else { return nil }
      guard try open.distrust(ofSubdirectory: opened) == nil else {
        return scope.fileNamePrefix.isEmpty ? .foreign(name) : nil
      }
      var stream = try opened.entries()
      leavesOutBeginning = try isWhereToGoOn(opened)
      if leavesOutBeginning, let start = scope.start {
        try stream.move(to: start.offset)
        hasLeftOutBeginning = true
      }
      entriesOfSubdirectory = 0
      subdirectoryStream = consume stream
      subdirectory = consume opened
    } catch {
      switch error.errno {
      // The file system did not report the entry's type. It is a symbolic link or another kind of file.
      case .notDirectory, .tooManySymbolicLinkLevels: return scope.fileNamePrefix.isEmpty ? .foreign(name) : nil
      case .noSuchFileOrDirectory: return nil
      default:
        return .record(RecordEntry(unreadable: name, BlobStoreError(error, operation: "list", key: nil)))
      }
    }
    subdirectoryName = name
    subdirectoryBytes = Array(name.utf8)
    return nil
  }

  /// A Boolean value that indicates whether an earlier walk stopped in the middle of the subdirectory.
  private func isWhereToGoOn(_ opened: borrowing Directory) throws(FileError) -> Bool {
    guard let start = scope.start, start.inode != 0, orderedEntries?.digest == start.digest else { return false }
    return try opened.status().inodeNumber == start.inode
  }

  private func rootItem(for entry: DirectoryEntry) throws -> RecordWalk.Item? {
    if entry.isNameExact, entry.kind == .directory || entry.kind == .unknown, scope.layout.isSubdirectory(entry.name) {
      guard mayHoldWanted(in: entry.name), try enters?(entry.name) ?? true else { return nil }
      beginEntry()
      return try enter(entry.name)
    }
    if [Quarantine.directoryName, RecyclingBin.directoryName, PackDirectory.name].contains(entry.name),
      entry.kind == .directory || entry.kind == .unknown
    {
      // Another user's directory is a foreign entry like any other.
      guard let status = try open.directory.status(of: entry.name), open.ownership.owners.distrust(of: status) != nil
      else {
        return nil
      }
    }
    if CacheDirectoryTag.isTag(entry.name, in: scope.layout)
      || [ControlFile.name, UsesFile.name, SettingsFile.name, RecordedConfiguration.name].contains(entry.name),
      entry.kind == .regular || entry.kind == .unknown
    {
      return nil
    }
    let item = try item(for: entry)
    if item != nil { beginEntry() }
    return item
  }

  private func mayHoldWanted(in name: String) -> Bool {
    // An ordered walk visits all subdirectories, even if only one of them can contain names with the prefix.
    let only = scope.layout.subdirectory(ofFileNamesBeginning: scope.fileNamePrefix)
    guard only.isEmpty else { return name.utf8.elementsEqual(only.utf8) }
    return scope.layout.mayHold(fileNamesBeginning: scope.fileNamePrefix, in: name)
  }

  private func path(ofFileName name: String) -> RecordPath? {
    guard subdirectory != nil else { return scope.layout.path(ofFileName: name, in: "") }
    if let path = scope.layout.path(ofFileName: name, in: subdirectoryName) { return path }
    // On a case-insensitive file system, "abcd" is stored in "AB" if "ABcd" was stored first.
    let own = scope.layout.subdirectory(ofFileName: name)
    guard own.utf8.count == subdirectoryName.utf8.count, let path = scope.layout.path(ofFileName: name, in: own),
      // A file whose status cannot be read counts as foreign, and is not removed.
      let status = try? open.directory.status(of: own), let current = try? subdirectory!.status()
    else { return nil }
    return status.inode == current.inode && status.deviceID == current.deviceID ? path : nil
  }

  private func item(for entry: DirectoryEntry) throws -> RecordWalk.Item? {
    let isMatch = entry.name.utf8.starts(with: scope.fileNamePrefix.utf8)
    let name = subdirectory == nil ? entry.name : subdirectoryName + "/" + entry.name
    let isOfOtherKind = entry.kind == .directory || entry.kind == .other
    if TemporaryNames.isName(entry.name), !isOfOtherKind {
      guard scope.fileNamePrefix.isEmpty else { return nil }
      let status = withCurrentDirectory { $0.statusOfUnreadable(entry.name) }
      return status.map(open.mayBeRecord) ?? true ? .temporary(name: entry.name) : .foreign(name)
    }
    guard !isOfOtherKind, entry.isNameExact, isMatch, let path = path(ofFileName: entry.name) else {
      return scope.fileNamePrefix.isEmpty ? .foreign(name) : nil
    }
    switch withCurrentDirectory({ Finding(path, in: $0, of: open, by: scope.judge) }) {
    case .absent: return nil
    case .foreign(let record):
      guard scope.fileNamePrefix.isEmpty else { return nil }
      return record.map { .foreignRecord($0) } ?? .foreign(name)
    case .record(let found):
      return .record(scope.entry(of: found))
    }
  }
}

extension Span<UInt8> {
  func starts(with prefix: [UInt8]) -> Bool {
    count >= prefix.count && prefix.indices.allSatisfy { self[$0] == prefix[$0] }
  }
}
