internal import BlobRecord
internal import Posix
internal import SystemPackage

/// A walk over all entries of a cache directory. It reads only headers, and keeps at most two directories open.
///
/// Packed records come first or, in an ordered walk, at the position of the pack directory. Records that were packed in
/// the meantime come last (`PackWalk`). With `skim`, a walk allocates nothing for records that this closure finishes.
/// Entries that are added or removed during the walk may or may not be returned.
@safe final class RecordWalk {
  enum Item {
    case record(RecordEntry)
    case temporary(name: String)
    /// A file in the current directory that does not count, because a packed record has the same name.
    case covered(RecordPath)
    /// An entry that does not belong to the cache, by its path relative to the root.
    case foreign(String)
    /// A file that would be a record if it did not belong to another user.
    case foreignRecord(BlobStore.ForeignRecord)
    /// The end of a subdirectory, which is still the current directory.
    case endOfSubdirectory(String)
  }

  let open: OpenRoot
  let layout: RecordLayout
  private let defaultExpiration: Int64
  private let now: UnixTime
  let fileNamePrefix: String
  let fileNamePrefixBytes: [UInt8]
  /// A closure that receives each sound record with a plain name before anything is allocated for it. It returns
  /// `true` if the record is finished; otherwise, the walk returns the record.
  var skim: ((RecordGlance) throws -> Bool)?
  /// A closure that receives a subdirectory's name and returns whether the walk enters the subdirectory.
  var enters: ((String) throws -> Bool)?
  let head = UnsafeMutableRawBufferPointer.allocate(byteCount: RecordHeader.byteCount, alignment: 8)

  private let start: WalkPosition?
  /// The number of entries of a subdirectory after which an ordered walk can stop in the middle of it.
  var smallestPart = Int.max
  var entriesOfSubdirectory = 0
  /// A Boolean value that indicates whether an earlier walk has returned the beginning of the current subdirectory.
  private(set) var leavesOutBeginning = false
  /// A Boolean value that indicates whether the walk has skipped the beginning of any subdirectory.
  var hasLeftOutBeginning = false

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
  private var pending: Item?

  let packs: PackWalk?
  var part = Part.files
  /// A Boolean value that indicates whether records may have been packed since the walk over the packs.
  var mustSweepPacks = false
  var packed: PackWalk.Met?
  /// A Boolean value that indicates whether an earlier walk stopped in the middle of the packs.
  let goesOnInPacks: Bool

  enum Part {
    case packs, files
    /// A second pass over the packs, at the end of the walk.
    case movedToPacks
  }

  /// With a `fileNamePrefix`, the walk returns only records with that prefix. With a `start`, it has the order of
  /// `OrderedEntries`; otherwise, it has the order of the file system.
  init(
    _ open: OpenRoot, _ packs: PackRecords?, layout: RecordLayout, defaultExpiration: Int64, now: UnixTime,
    fileNamePrefix: String = "", from start: WalkPosition? = nil
  ) throws {
    self.open = open
    self.layout = layout
    self.defaultExpiration = defaultExpiration
    self.now = now
    self.fileNamePrefix = fileNamePrefix
    fileNamePrefixBytes = Array(fileNamePrefix.utf8)
    self.start = start
    goesOnInPacks = try packs.map { try Self.isLeft(in: $0, start) } ?? false
    let packPosition = goesOnInPacks ? start.map { UInt64(bitPattern: $0.offset) } : nil
    self.packs = try packs.map { try PackWalk($0, from: packPosition ?? 0) }
    // Names with the same two initial characters share a subdirectory, so a walk by prefix need not list the root.
    let only = layout.subdirectory(ofFileNamesBeginning: fileNamePrefix)
    if let start {
      orderedEntries = OrderedEntries(from: start.digest)
      return
    }
    if only.isEmpty {
      rootStream = try open.directory.entries()
    } else {
      pending = try enter(only)
    }
    enterPacks()
  }

  deinit { unsafe head.deallocate() }

  func next() throws -> Item? {
    if let item = pending.take() { return item }
    while true {
      if isInPacks {
        if let item = try nextPacked() { return item }
        part = .files
      } else if subdirectory != nil {
        if let item = try nextOfSubdirectory() { return item }
      } else {
        switch try nextOfRoot() {
        case .end:
          guard mustSweepPacks else { return nil }
          mustSweepPacks = false
          try packs?.beginSweep()
          part = .movedToPacks
        case .nothing: break
        case .item(let item): return item
        }
      }
    }
  }

  /// - Returns: The next item, or `nil` if the entry is skipped or the subdirectory has ended.
  private func nextOfSubdirectory() throws -> Item? {
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

  private func subdirectoryItem() throws -> Item? {
    // Few of many names may have the prefix, so the others are rejected before a string is created.
    guard fileNamePrefix.isEmpty || doesNameMatch(in: subdirectoryStream!) else { return nil }
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

  private enum Step {
    case end, nothing
    case item(Item)

    init(_ item: Item?) { self = item.map { .item($0) } ?? .nothing }
  }

  private func nextOfRoot() throws -> Step {
    if orderedEntries != nil {
      guard let entry = try orderedEntries!.next(of: open.directory) else { return .end }
      return Step(try rootItem(for: entry))
    }
    guard try rootStream?.advance() == true else { return .end }
    switch try skimEntry(of: rootStream!, in: open.directory) {
    case .done: return .nothing
    case .item(let item): return .item(item)
    case .toBeMet: return Step(try rootItem(for: entry(of: rootStream!)))
    }
  }

  private func entry(of stream: borrowing DirectoryStream) -> DirectoryEntry { stream.entry }

  /// The position at which another ordered walk continues: the first entry that was not returned completely.
  var position: WalkPosition {
    guard let orderedEntries else { return WalkPosition(digest: 0) }
    if isBetweenEntries { return WalkPosition(digest: orderedEntries.digest &+ 1) }
    var position = WalkPosition(digest: orderedEntries.digest)
    // A subdirectory that cannot be identified is walked again.
    if isAmongPacked {
      guard hasMetPart, let packs, let inode = try? packs.records.directoryNumber else { return position }
      position.inode = inode
      position.offset = Int64(bitPattern: packs.position)
    } else if hasMetPart, let inode = try? subdirectory?.status().inodeNumber {
      position.inode = inode
      position.offset = offset(in: subdirectoryStream!)
    }
    return position
  }

  private func offset(in stream: borrowing DirectoryStream) -> Int64 { stream.position }

  /// A Boolean value that indicates whether another walk can continue in the middle of the current subdirectory.
  var hasMetPart: Bool {
    let keepsPosition = isAmongPacked || (DirectoryStream.keepsPositions && subdirectoryStream != nil)
    return keepsPosition && entriesOfSubdirectory >= smallestPart
  }

  /// The part of the root that an ordered walk has returned, if it is between two entries.
  var walkedPart: OrderedEntries.Part? {
    orderedEntries.map { OrderedEntries.Part(start: $0.start, end: position.digest) }
  }

  /// A Boolean value that indicates whether an ordered walk has continued at the beginning of the order.
  var hasWrapped: Bool { orderedEntries.map { $0.digest < $0.start } ?? false }

  /// A Boolean value that indicates whether the current root entry is finished, with all entries of its digest.
  var isBetweenEntries: Bool {
    !isAmongPacked && subdirectoryStream == nil && orderedEntries?.hasMoreOfDigest != true
  }

  private func beginEntry() {
    if let digest = orderedEntries?.digest, digest == digestBegun { return }
    digestBegun = orderedEntries?.digest
    entriesBegun += 1
  }

  var skimmedPath: RecordPath? {
    if isInPacks { return packedPath }
    if subdirectoryStream != nil {
      return layout.path(ofFileName: entry(of: subdirectoryStream!).name, in: subdirectoryName)
    }
    return layout.path(ofFileName: entry(of: rootStream!).name, in: "")
  }

  var isInSubdirectory: Bool { subdirectory != nil && !isInPacks }

  /// Calls a closure with the directory of the last returned item; for a packed record, that is the root.
  func withCurrentDirectory<Result: ~Copyable>(_ body: (borrowing Directory) throws -> Result) rethrows -> Result {
    if isInSubdirectory { return try body(subdirectory!) }
    return try body(open.directory)
  }

  private func enter(_ name: String) throws -> Item? {
    do {
      guard let opened = try open.directory.openSubdirectory(name) else { return nil }
      guard try open.distrust(ofSubdirectory: opened) == nil else {
        return fileNamePrefix.isEmpty ? .foreign(name) : nil
      }
      var stream = try opened.entries()
      leavesOutBeginning = try isWhereToGoOn(opened)
      if leavesOutBeginning, let start {
        try stream.move(to: start.offset)
        hasLeftOutBeginning = true
      }
      entriesOfSubdirectory = 0
      subdirectoryStream = consume stream
      subdirectory = consume opened
    } catch {
      switch error.errno {
      // The file system did not report the entry's type. It is a symbolic link or another kind of file.
      case .notDirectory, .tooManySymbolicLinkLevels: return fileNamePrefix.isEmpty ? .foreign(name) : nil
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
    guard let start, start.inode != 0, orderedEntries?.digest == start.digest else { return false }
    return try opened.status().inodeNumber == start.inode
  }

  private func rootItem(for entry: DirectoryEntry) throws -> Item? {
    if entry.isNameExact, entry.kind == .directory || entry.kind == .unknown, layout.isSubdirectory(entry.name) {
      guard mayHoldWanted(in: entry.name), try enters?(entry.name) ?? true else { return nil }
      beginEntry()
      return try enter(entry.name)
    }
    if entry.name == PackDirectory.name, orderedEntries != nil, packs != nil {
      beginEntry()
      enterPacks()
      return nil
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
    if CacheDirectoryTag.isTag(entry.name, in: layout), entry.kind == .regular || entry.kind == .unknown { return nil }
    if [ControlFile.name, UsesFile.name, SettingsFile.name, RecordedConfiguration.name].contains(entry.name),
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
    let only = layout.subdirectory(ofFileNamesBeginning: fileNamePrefix)
    guard only.isEmpty else { return name.utf8.elementsEqual(only.utf8) }
    return layout.mayHold(fileNamesBeginning: fileNamePrefix, in: name)
  }

  private func path(ofFileName name: String) -> RecordPath? {
    guard subdirectory != nil else { return layout.path(ofFileName: name, in: "") }
    if let path = layout.path(ofFileName: name, in: subdirectoryName) { return path }
    // On a case-insensitive file system, "abcd" is stored in "AB" if "ABcd" was stored first.
    let own = layout.subdirectory(ofFileName: name)
    guard own.utf8.count == subdirectoryName.utf8.count, let path = layout.path(ofFileName: name, in: own),
      // A file whose status cannot be read counts as foreign, and is not removed.
      let status = try? open.directory.status(of: own), let current = try? subdirectory!.status()
    else { return nil }
    return status.inode == current.inode && status.deviceID == current.deviceID ? path : nil
  }

  private func item(for entry: DirectoryEntry) throws -> Item? {
    let isMatch = entry.name.utf8.starts(with: fileNamePrefix.utf8)
    let name = subdirectory == nil ? entry.name : subdirectoryName + "/" + entry.name
    let isOfOtherKind = entry.kind == .directory || entry.kind == .other
    if TemporaryNames.isName(entry.name), !isOfOtherKind {
      guard fileNamePrefix.isEmpty else { return nil }
      let status = withCurrentDirectory { $0.statusOfUnreadable(entry.name) }
      return status.map(open.mayBeRecord) ?? true ? .temporary(name: entry.name) : .foreign(name)
    }
    guard !isOfOtherKind, entry.isNameExact, isMatch, let path = path(ofFileName: entry.name) else {
      return fileNamePrefix.isEmpty ? .foreign(name) : nil
    }
    switch withCurrentDirectory({ Finding(path, in: $0, of: open, by: judge) }) {
    case .absent: return nil
    case .foreign(let record):
      guard fileNamePrefix.isEmpty else { return nil }
      return record.map { .foreignRecord($0) } ?? .foreign(name)
    case .record(let found):
      guard try packs?.records.holds(path) != true else { return .covered(path) }
      return .record(recordEntry(of: found))
    }
  }

  func recordEntry(of found: borrowing FoundRecord) -> RecordEntry {
    RecordEntry(found, layout.naming, now: now, defaultExpiration: defaultExpiration)
  }

  var judge: RecordJudge { RecordJudge(at: now, defaultExpiration: defaultExpiration) }
}

extension Span<UInt8> {
  func starts(with prefix: [UInt8]) -> Bool {
    count >= prefix.count && prefix.indices.allSatisfy { self[$0] == prefix[$0] }
  }
}
