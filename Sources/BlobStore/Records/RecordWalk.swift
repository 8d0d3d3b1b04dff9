internal import BlobRecord
internal import Posix

/// A walk over all entries of a cache directory, in both engines. It reads only headers.
///
/// Packed records come first or, in an ordered walk, at the position of the pack directory. Records that were packed in
/// the meantime come last (`PackWalk`). Entries that are added or removed during the walk may or may not be returned.
final class RecordWalk {
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

  private enum Part {
    case packs, files
    /// A second pass over the packs, at the end of the walk.
    case movedToPacks
  }

  let files: FileWalk
  /// A closure that receives each sound record with a plain name before anything is allocated for it. It returns
  /// `true` if the record is finished; otherwise, the walk returns the record.
  var skim: ((RecordGlance) throws -> Bool)? { didSet { files.skim = skim } }
  let packs: PackWalk?
  private let scope: WalkScope
  private let fileNamePrefixBytes: [UInt8]
  private var part = Part.files
  private var packed: PackWalk.Met?
  /// The number of records that this walk has found in the packs.
  private var packedCount = 0
  /// A Boolean value that indicates whether records may have been packed since the walk over the packs.
  private var mustSweepPacks = false
  /// A Boolean value that indicates whether an earlier walk stopped in the middle of the packs.
  private let goesOnInPacks: Bool
  private var hasLeftOutPacked = false

  init(_ scope: WalkScope, in open: OpenRoot, _ engine: FileRecords, _ packs: PackRecords?) throws {
    self.scope = scope
    fileNamePrefixBytes = Array(scope.fileNamePrefix.utf8)
    goesOnInPacks = try packs?.isWhereToGoOn(scope.start) ?? false
    self.packs = try packs?.walk(scope, in: open)
    files = try engine.walk(scope, in: open)
    if let packs { files.mayBePacked = packs.mayHold(nameDigest:) }
    if scope.start == nil { enterPacks() }
  }

  func next() throws -> Item? {
    while true {
      if isInPacks {
        if let item = try nextPacked() { return item }
        part = .files
      }
      switch try files.next() {
      case .item(.record(let entry)):
        guard let path = entry.path, try packs?.records.holds(path) == true else { return .record(entry) }
        return .covered(path)
      case .item(let item): return item
      case .packs: enterPacks()
      case .end:
        guard mustSweepPacks else { return nil }
        mustSweepPacks = false
        try packs?.beginSweep()
        part = .movedToPacks
      }
    }
  }

  /// Calls a closure with the directory of the last returned item; for a packed record, that is the root.
  func withCurrentDirectory<Result: ~Copyable>(_ body: (borrowing Directory) throws -> Result) rethrows -> Result {
    if isInPacks { return try body(files.open.directory) }
    return try files.withCurrentDirectory(body)
  }

  var isInSubdirectory: Bool { !isInPacks && files.isInSubdirectory }

  var skimmedPath: RecordPath? { isInPacks ? packedPath : files.skimmedPath }
}

// MARK: - Position

extension RecordWalk {
  /// The position at which another ordered walk continues: the first entry that was not returned completely.
  var position: WalkPosition {
    guard isAmongPacked, scope.start != nil else { return files.position }
    var position = WalkPosition(digest: OrderedEntries.digestOfPacks)
    // A directory that cannot be identified is walked again.
    if hasMetPart, let packs, let inode = try? packs.records.directoryNumber {
      position.inode = inode
      position.offset = Int64(bitPattern: packs.position)
    }
    return position
  }

  /// A Boolean value that indicates whether another walk can continue in the middle of the current subdirectory.
  var hasMetPart: Bool { isAmongPacked ? packedCount >= files.smallestPart : files.hasMetPart }

  /// A Boolean value that indicates whether the walk has skipped the beginning of any subdirectory.
  var hasLeftOutBeginning: Bool { files.hasLeftOutBeginning || hasLeftOutPacked }

  /// The part of the root that an ordered walk has returned, if it is between two entries.
  var walkedPart: OrderedEntries.Part? {
    scope.start.map { OrderedEntries.Part(start: $0.digest, end: position.digest) }
  }

  /// A Boolean value that indicates whether the current root entry is finished, with all entries of its digest.
  var isBetweenEntries: Bool { !isAmongPacked && files.isBetweenEntries }
}

// MARK: - Packed records

extension RecordWalk {
  var isInPacks: Bool { part != .files }

  /// A Boolean value that indicates whether the walk is at the position of packed records in the order.
  private var isAmongPacked: Bool { part == .packs }

  private func enterPacks() {
    guard packs != nil else { return }
    part = .packs
    if goesOnInPacks { hasLeftOutPacked = true } else { mustSweepPacks = true }
  }

  private func nextPacked() throws -> Item? {
    guard let packs else { return nil }
    do {
      while let met = try packs.next() {
        packed = met
        packedCount += 1
        if let item = try item(for: met, in: packs) { return item }
      }
      return nil
    } catch let error as ChunkFailure {
      // A chunk that cannot be read does not end the walk over the others.
      return .record(RecordEntry(unreadable: packs.file, BlobStoreError(error.cause, operation: "read", key: nil)))
    }
  }

  private func item(for met: PackWalk.Met, in packs: PackWalk) throws -> Item? {
    let (prefix, layout) = (fileNamePrefixBytes, scope.layout)
    let (isWanted, isPlain) = packs.withName(of: met) { name in
      (name.starts(with: prefix), layout.isPlain(fileName: name))
    }
    guard isWanted else { return nil }
    if let skim, isPlain, let finding = met.finding,
      let glance = RecordGlance(finding, digest: met.digest, by: scope.judge), try skim(glance)
    {
      return nil
    }
    guard let path = packedPath else {
      return prefix.isEmpty ? .foreign(packs.file + "/" + (packs.name(of: met) ?? "")) : nil
    }
    guard let found = try packs.found(met, at: path, by: scope.judge) else { return nil }
    return .record(scope.entry(of: found))
  }

  private var packedPath: RecordPath? {
    guard let packs, let packed else { return nil }
    return packs.name(of: packed).flatMap { scope.layout.path(ofFileName: $0) }
  }
}

// MARK: - The engines

extension FileRecords {
  func walk(_ scope: WalkScope, in open: OpenRoot) throws -> FileWalk { try FileWalk(scope, in: open) }
}

extension PackRecords {
  func walk(_ scope: WalkScope, in _: OpenRoot) throws -> PackWalk {
    let isToGoOn = try isWhereToGoOn(scope.start)
    return try PackWalk(self, from: isToGoOn ? scope.start.map { UInt64(bitPattern: $0.offset) } ?? 0 : 0)
  }

  /// Returns whether an earlier walk stopped in the middle of the packs.
  fileprivate func isWhereToGoOn(_ start: WalkPosition?) throws(FileError) -> Bool {
    guard let start, start.inode != 0, start.digest == OrderedEntries.digestOfPacks else { return false }
    return try directoryNumber == start.inode
  }
}
