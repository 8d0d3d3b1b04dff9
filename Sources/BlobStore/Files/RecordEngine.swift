internal import BlobRecord
internal import Posix

/// An engine, which contains records in its own form: `FileRecords` in separate files, `PackRecords` in packs.
///
/// `Records` decides which engine contains a record, and calls these functions. Changes are made while the key is held,
/// which the parameter `hold` proves.
///
/// Both engines also have the functions `prepare` and `commit`, which sync and publish a draft. They differ only in the
/// type of the draft, `FileDraft` or `PackedDraft`. A protocol cannot state them, because an associated type cannot be
/// noncopyable in Swift 6.3.
protocol RecordEngine {
  associatedtype Walk

  /// Returns a walk over the records of the engine.
  func walk(_ scope: WalkScope, in open: OpenRoot) throws -> Walk

  /// Looks up a record, without a lock unless the key is held.
  ///
  /// - Parameter directory: The subdirectory of the record, which only records in files need.
  func find(
    _ name: RecordPath, in directory: borrowing Directory, of open: OpenRoot, by judge: RecordJudge,
    readsExtension: Bool
  ) throws -> Finding

  /// Changes the header of a live record with a closure, and keeps its payload. Returns `nil` if the engine has no such
  /// record, or cannot contain it with the new header.
  ///
  /// - Parameter copiesLinked: A Boolean value that indicates whether a file with another hard link is copied for the
  ///   change. Otherwise, it is not changed.
  mutating func rewriteHeader(
    of name: RecordPath, in open: OpenRoot, at now: UnixTime, _ level: BlobStore.Durability.Level, copiesLinked: Bool,
    _ hold: inout KeyHold, _ change: (inout RecordHeader) throws -> HeaderChange
  ) throws -> RewrittenRecord?

  /// Removes a record, and returns `false` if it no longer exists.
  ///
  /// - Parameters:
  ///   - recycling: A Boolean value that indicates whether the file may be overwritten later.
  ///   - erasing: A Boolean value that indicates whether the bytes of a packed record are overwritten immediately.
  mutating func remove(
    _ found: borrowing FoundRecord, _ level: BlobStore.Durability.Level, recycling: Bool, erasing: Bool,
    in directory: borrowing Directory, of open: OpenRoot, _ hold: inout KeyHold
  ) throws -> Bool
}

enum HeaderChange {
  case changed
  case unchanged(BlobStore.Outcome)
}

/// The records that a walk returns, and the rules by which it judges them.
struct WalkScope {
  let layout: RecordLayout
  let defaultExpiration: Int64
  let now: UnixTime
  /// The beginning of the names of the wanted records. Other entries are returned only if it is empty.
  var fileNamePrefix = ""
  /// The position of an ordered walk (`OrderedEntries`), or `nil` for a walk in the order of the file system.
  var start: WalkPosition?

  var judge: RecordJudge { RecordJudge(at: now, defaultExpiration: defaultExpiration) }

  func entry(of found: borrowing FoundRecord) -> RecordEntry {
    RecordEntry(found, layout.naming, now: now, defaultExpiration: defaultExpiration)
  }
}
