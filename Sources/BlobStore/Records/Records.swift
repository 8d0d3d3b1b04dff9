internal import BlobRecord
internal import Posix
internal import SystemPackage

#if canImport(FoundationEssentials)
  internal import FoundationEssentials
#else
  internal import Foundation
#endif

/// The records of a directory, whichever engine holds them: the only way from a verb to bytes on disk.
///
/// A key has at most one record. It changes only while its key is held, and the compiler asks for the hold. Today there is
/// one engine, `FileRecords`; a second one is a second property and a `switch` in each of these functions.
struct Records {
  let files: FileRecords

  init(_ core: StoreCore) { files = FileRecords(core: core) }

  /// Looks at a record's place, without a lock unless the key is held.
  ///
  /// - Parameter readsExtension: whether to read what lies behind the payload, too.
  func find(
    _ name: RecordPath, in directory: borrowing Directory, of open: OpenRoot, by judge: RecordJudge,
    readsExtension: Bool = true
  ) -> Finding {
    files.find(name, in: directory, of: open, by: judge, readsExtension: readsExtension)
  }

  /// Reads a whole record; without a lock, unless the key is held.
  ///
  /// - Parameters:
  ///   - key: the one that leads to the name; a record that keeps another is damaged.
  ///   - asksStatus: whether to ask for the file's owner and size where they are known without that, too.
  func read(
    _ name: RecordPath, of key: BlobKey, in open: OpenRoot, at now: UnixTime, asksStatus: Bool
  ) throws -> Reading<RecordContent> {
    try files.read(name, of: key, in: open, at: now, asksStatus: asksStatus)
  }

  /// Reads a record's header, and judges the record by it.
  func readHeader(of name: RecordPath, in open: OpenRoot, at now: UnixTime) throws -> Reading<Void> {
    try files.readHeader(of: name, in: open, at: now)
  }

  /// Opens a record, judges it by its header and its extension, and keeps it open for reads of its payload.
  func openLive(_ name: RecordPath, in open: OpenRoot, at now: UnixTime) throws -> Reading<OpenRecord> {
    try files.openLive(name, in: open, at: now)
  }

  /// Opens a record as `openLive` does, also one that is being written.
  func openFollowed(_ name: RecordPath, in open: OpenRoot, at now: UnixTime) throws -> Reading<FollowedRecord> {
    try files.openFollowed(name, in: open, at: now)
  }

  /// As `read`, without waiting for the disk.
  func readCached(
    _ name: RecordPath, of key: BlobKey, in open: OpenRoot, at now: UnixTime
  ) throws(CachedLookFailure) -> Reading<RecordContent> {
    try files.readCached(name, of: key, in: open, at: now)
  }

  /// As `readHeader`, without waiting for the disk.
  func readCachedHeader(
    of name: RecordPath, in open: OpenRoot, at now: UnixTime
  ) throws(CachedLookFailure) -> Reading<Void> {
    try files.readCachedHeader(of: name, in: open, at: now)
  }

  /// Opens what lies at a name, if it is a file of the cache's.
  ///
  /// - Throws: `DamagedRecord` if others may write to it.
  func open(_ name: RecordPath, in open: OpenRoot, for access: FileAccess) throws -> OpenedFile {
    try files.open(name, in: open, for: access)
  }

  /// Walks over everything that lies in the directory.
  ///
  /// - Parameters:
  ///   - layout: tells which names are records', and where.
  ///   - fileNamePrefix: with it, only records whose names begin so, and nothing else, is met.
  ///   - start: where to begin, for a walk in the order of `OrderedEntries`; nil for the order of the file system.
  func walk(
    _ open: OpenRoot, by layout: RecordLayout, fileNamePrefix: String = "", from start: WalkPosition? = nil
  ) throws -> RecordWalk {
    try RecordWalk(
      open, layout: layout, defaultExpiration: files.core.defaultExpiration, now: files.core.configuration.now(),
      fileNamePrefix: fileNamePrefix, from: start)
  }

  /// Makes a place to write a record to, without a lock. It vanishes in the end, unless it is committed.
  func draft(
    _ header: RecordHeader, for name: RecordPath, _ attempts: DraftAttempts, in subdirectory: OpenSubdirectory,
    of open: OpenRoot
  ) throws -> FileDraft {
    try files.supply.draft(for: header, at: name, attempts, in: subdirectory, of: open)
  }

  /// Puts a written record in its place.
  ///
  /// - Parameters:
  ///   - found: the record that it replaces; nil if none is known.
  ///   - isSureOfName: whether the name was looked at.
  func commit(
    _ draft: inout FileDraft, as name: RecordPath, _ size: RecordSize, replacing found: borrowing FoundRecord?,
    isSureOfName: Bool, _ level: BlobStore.Durability.Level, within limit: StoreLimit?, of open: OpenRoot,
    _ hold: borrowing KeyHold
  ) throws -> CommitOutcome {
    try files.commit(
      &draft, as: name, size, replacing: found, isSureOfName: isSureOfName, level, within: limit, of: open, hold)
  }

  /// Completes a record that has its place since before it was whole.
  ///
  /// - Returns: `nameIsTaken` if it has lost its place; then nothing is done.
  func complete(
    _ draft: borrowing FileDraft, as name: RecordPath, from stream: RecordHeader, to header: RecordHeader,
    _ level: BlobStore.Durability.Level, within limit: StoreLimit?, _ hold: borrowing KeyHold
  ) throws -> CommitOutcome {
    try files.complete(draft, as: name, from: stream, to: header, level, within: limit, hold)
  }

  /// Writes another header into a record whose payload is not complete.
  func rewriteStream(_ draft: borrowing FileDraft, to header: RecordHeader, _: borrowing KeyHold) throws {
    try header.withEncodedBytes { bytes throws(FileError) in try draft.file.write(bytes, at: 0) }
  }

  /// Removes a record whose payload is not complete, unless it has lost its place.
  func withdrawStream(_ draft: borrowing FileDraft, at name: RecordPath, _ hold: borrowing KeyHold) throws {
    guard try draft.isInPlace(as: name.fileName) else { return }
    try files.withdraw(name, .stream, .none, in: draft.subdirectory.directory, hold)
  }

  /// Removes a record that a commit has put in its place under the same hold.
  func withdraw(
    _ name: RecordPath, _ size: RecordSize, _ level: BlobStore.Durability.Level, in directory: borrowing Directory,
    _ hold: borrowing KeyHold
  ) throws {
    try files.withdraw(name, size, level, in: directory, hold)
  }

  /// Changes the header of a record, whose payload stays.
  ///
  /// - Returns: whether the record had to be copied.
  func rewriteHeader(
    of name: RecordPath, in file: borrowing OpenFile, _ status: Stat, from before: RecordHeader,
    to header: RecordHeader, _ level: BlobStore.Durability.Level, _ hold: borrowing KeyHold
  ) throws -> Bool {
    try files.rewriteHeader(of: name, in: file, status, from: before, to: header, level, hold)
  }

  /// Reads a record's header and its extension, and judges the record by them.
  func judgeWithExtension(
    _ file: borrowing OpenFile, _ status: Stat, at name: RecordPath, now: UnixTime
  ) throws -> (verdict: RecordVerdict, extension: RecordExtension?) {
    try files.judgeWithExtension(file, status, at: name, now: now)
  }

  /// Gives a record another extension. Its payload stays.
  ///
  /// - Returns: whether the record had to be copied.
  func rewriteExtension(
    of name: RecordPath, in file: borrowing OpenFile, _ status: Stat, from before: RecordHeader,
    _ old: RecordExtension?, to new: RecordExtension, _ level: BlobStore.Durability.Level, _ hold: borrowing KeyHold
  ) throws -> Bool {
    try files.rewriteExtension(of: name, in: file, status, from: before, old, to: new, level, hold)
  }

  /// Removes a record.
  ///
  /// - Returns: false if there was none.
  func remove(
    _ found: borrowing FoundRecord, _ level: BlobStore.Durability.Level, recycling: Bool,
    in directory: borrowing Directory,
    of open: OpenRoot, _ hold: borrowing KeyHold
  ) throws -> Bool {
    try files.remove(found, level, recycling: recycling, in: directory, of: open, hold)
  }
}

extension StoreCore {
  var records: Records { Records(self) }
}
