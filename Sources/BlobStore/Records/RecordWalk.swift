internal import BlobRecord
internal import Posix
internal import SystemPackage

/// A walk over everything in a cache directory, one entry at a time. It reads only the header of a file, and holds two
/// open directories.
///
/// Packed records come first; in an ordered walk, where the directory of packs has its place in the order. In the end come
/// those that have moved meanwhile (`PackWalk`).
///
/// With `skim`, a walk over very many records of which few matter allocates nothing for the others.
///
/// Entries made or removed during the walk may or may not be met.
@safe final class RecordWalk {
  /// An entry that the walk meets.
  enum Item {
    case record(RecordEntry)
    /// A temporary file, in the current directory.
    case temporary(name: String)
    /// A file of the cache's that has a packed record of its name beside it, in the current directory. It does not count.
    case covered(RecordPath)
    /// Something that is not the cache's, by its path below the root.
    case foreign(String)
    /// A file that is not a record only because it is another user's.
    case foreignRecord(BlobStore.ForeignRecord)
    /// All of a subdirectory was met; it is still the current directory.
    case endOfSubdirectory(String)
  }

  let open: OpenRoot
  let layout: RecordLayout
  private let defaultExpiration: Int64
  private let now: UnixTime
  let fileNamePrefix: String
  let fileNamePrefixBytes: [UInt8]
  /// Called with each sound record whose name is plain, before anything is allocated for it. True if the record is done
  /// with; else the walk meets it.
  var skim: ((RecordGlance) throws -> Bool)?
  /// Asked before a subdirectory is entered, by its name.
  var enters: ((String) throws -> Bool)?
  /// Receives what is read of a file that is skimmed.
  let head = UnsafeMutableRawBufferPointer.allocate(byteCount: RecordHeader.byteCount, alignment: 8)

  private let start: WalkPosition?
  /// How many entries of a subdirectory an ordered walk must have met to be left in its middle.
  var smallestPart = Int.max
  var entriesOfSubdirectory = 0
  /// Whether the beginning of the current subdirectory is left out, because an earlier walk has met it.
  private(set) var leavesOutBeginning = false
  /// Whether that was so for any subdirectory.
  var hasLeftOutBeginning = false

  private var rootStream: DirectoryStream?
  /// The root's entries in order, where an order is wanted.
  private var orderedEntries: OrderedEntries?
  /// Entries of the root of which something was met. In an ordered walk those of one digest are one.
  private(set) var entriesBegun = 0
  private var digestBegun: UInt64?
  private var subdirectory: Directory?
  private(set) var subdirectoryName = ""
  var subdirectoryBytes: [UInt8] = []
  private var subdirectoryStream: DirectoryStream?
  /// The item of an only subdirectory that cannot be listed.
  private var pending: Item?

  /// nil without packs.
  let packs: PackWalk?
  var part = Part.files
  /// Whether packed records may have moved since they were walked over.
  var mustSweepPacks = false
  /// The packed record in hand.
  var packed: PackWalk.Met?
  /// Whether an earlier walk was left in the middle of the packs.
  let goesOnInPacks: Bool

  /// What is walked over.
  enum Part {
    case packs, files
    /// Once more the packs, in the end.
    case movedToPacks
  }

  /// - Parameters:
  ///   - packs: of the directory; nil if it has none.
  ///   - fileNamePrefix: with it, only records whose names begin so, and nothing else, is met.
  ///   - start: where to begin, for a walk in the order of `OrderedEntries`; nil for the order of the file system.
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
    // By prefix, names that begin with the same two characters lie in one subdirectory, and the root need not be listed.
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

  /// - Returns: nil at the end.
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

  /// - Returns: nil if the next entry is not met, or if the subdirectory has come to its end.
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
      // One subdirectory that cannot be listed to its end does not end the walk over the others.
      subdirectoryStream = nil
      return .record(RecordEntry(unreadable: subdirectoryName, BlobStoreError(error, operation: "list", key: nil)))
    }
    return try subdirectoryItem()
  }

  private func subdirectoryItem() throws -> Item? {
    // Of very many names, few may begin so: the others cost no text.
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

  /// The result of the next entry of the root.
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

  /// Where another ordered walk goes on: with what was not met to its end.
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

  /// Whether an ordered walk has met so much of the current subdirectory that another one goes on in its middle.
  var hasMetPart: Bool {
    let keepsPosition = isAmongPacked || (DirectoryStream.keepsPositions && subdirectoryStream != nil)
    return keepsPosition && entriesOfSubdirectory >= smallestPart
  }

  /// The part of the root that an ordered walk between two entries has met.
  var walkedPart: OrderedEntries.Part? {
    orderedEntries.map { OrderedEntries.Part(start: $0.start, end: position.digest) }
  }

  /// Whether an ordered walk has come to the end of the order, and goes on at its beginning.
  var hasWrapped: Bool { orderedEntries.map { $0.digest < $0.start } ?? false }

  /// Whether nothing of an entry of the root is left to be met; nor, in an ordered walk, another of its digest.
  var isBetweenEntries: Bool {
    !isAmongPacked && subdirectoryStream == nil && orderedEntries?.hasMoreOfDigest != true
  }

  private func beginEntry() {
    if let digest = orderedEntries?.digest, digest == digestBegun { return }
    digestBegun = orderedEntries?.digest
    entriesBegun += 1
  }

  /// The place of the record that is being skimmed.
  var skimmedPath: RecordPath? {
    if isInPacks { return packedPath }
    if subdirectoryStream != nil {
      return layout.path(ofFileName: entry(of: subdirectoryStream!).name, in: subdirectoryName)
    }
    return layout.path(ofFileName: entry(of: rootStream!).name, in: "")
  }

  /// Whether the item that was met last lies in a subdirectory.
  var isInSubdirectory: Bool { subdirectory != nil && !isInPacks }

  /// The directory of the item that was met last; of a packed record, the root.
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
      // The file system had not said what it is: no directory, it turns out, or a link.
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

  /// Whether an earlier walk has ended in the middle of a subdirectory.
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
      // Another's is no more than any other directory of theirs.
      guard let status = try open.directory.status(of: entry.name), open.ownership.owners.distrust(of: status) != nil
      else {
        return nil
      }
    }
    if CacheDirectoryTag.isTag(entry.name, in: layout), entry.kind == .regular || entry.kind == .unknown { return nil }
    if entry.name == ControlFile.name || entry.name == UsesFile.name || entry.name == SettingsFile.name,
      entry.kind == .regular || entry.kind == .unknown
    {
      return nil
    }
    let item = try item(for: entry)
    if item != nil { beginEntry() }
    return item
  }

  /// Whether names that begin as they must may lie in a subdirectory.
  private func mayHoldWanted(in name: String) -> Bool {
    // An ordered walk meets all subdirectories, also where all such names lie in one.
    let only = layout.subdirectory(ofFileNamesBeginning: fileNamePrefix)
    guard only.isEmpty else { return name.utf8.elementsEqual(only.utf8) }
    return layout.mayHold(fileNamesBeginning: fileNamePrefix, in: name)
  }

  /// The place of a record of this name, if it is one's.
  private func path(ofFileName name: String) -> RecordPath? {
    guard subdirectory != nil else { return layout.path(ofFileName: name, in: "") }
    if let path = layout.path(ofFileName: name, in: subdirectoryName) { return path }
    // Where case does not count in names, "abcd" lies in "AB" if "ABcd" came first.
    let own = layout.subdirectory(ofFileName: name)
    guard own.utf8.count == subdirectoryName.utf8.count, let path = layout.path(ofFileName: name, in: own),
      // A file that cannot be looked at is foreign, and stays.
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
