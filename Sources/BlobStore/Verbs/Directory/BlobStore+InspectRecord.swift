public import BlobRecord
internal import Posix
internal import SystemPackage

extension BlobStore {
  /// Inspects the record of a key without touching it, whether it is packed or stored in a separate file.
  ///
  /// - Returns: The inspection, or `nil` if no record exists.
  /// - Throws: The errors of `inspect`; `invalidKey`.
  /// - Complexity: As `inspect`, or one read for a packed record.
  public func inspectRecord(of key: BlobKey) throws(BlobStoreError) -> RecordInspection? {
    try inspectRecord(of: key, checkingUpTo: .max)
  }

  /// Inspects a record as `inspectRecord(of:)` does, but only verifies the checksum of payloads up to the given size.
  package func inspectRecord(
    of key: BlobKey, checkingUpTo byteCount: UInt64
  ) throws(BlobStoreError) -> RecordInspection? {
    try withErrorContext("inspect", key) { try core.inspection(at: core.path(for: key), checkingUpTo: byteCount) }
  }

  /// Inspects an enumerated record.
  ///
  /// - Returns: The inspection, or `nil` if the record no longer exists.
  /// - Throws: The errors of `inspect`, and the error that prevented the enumeration from reading the record.
  public func inspect(_ entry: RecordEntry) throws(BlobStoreError) -> RecordInspection? {
    try inspect(entry, checkingUpTo: .max)
  }

  /// Inspects a record as `inspect(_:)` does, but only verifies the checksum of payloads up to the given size.
  package func inspect(
    _ entry: RecordEntry, checkingUpTo byteCount: UInt64
  ) throws(BlobStoreError) -> RecordInspection? {
    if let error = entry.accessError { throw error }
    guard let path = entry.path else { return nil }
    return try withErrorContext("inspect") { try core.inspection(at: path, checkingUpTo: byteCount) }
  }
}

extension StoreCore {
  fileprivate func inspection(at path: RecordPath, checkingUpTo byteCount: UInt64) throws -> RecordInspection? {
    guard let open = try root.opened() else { return nil }
    let (path, limit) = (open.placed(path), inspectionLimit(byteCount))
    if let inspection = try packedInspection(of: path, in: open, limit) { return inspection }
    do {
      return try inspection(of: root.path.appending(path.relative), checkingUpTo: limit)
    } catch let error as FileError where error.errno == .noSuchFileOrDirectory || error.errno == .notDirectory {
      // The record may have been packed after the lookup in the packs.
      return try packedInspection(of: path, in: open, limit)
    }
  }

  private func packedInspection(
    of name: RecordPath, in open: OpenRoot, _ limit: UInt64
  ) throws -> RecordInspection? {
    guard let packs = try records.packs(of: open) else { return nil }
    do {
      guard let (found, content) = try packs.content(of: name) else { return nil }
      let file = try open.memoryFile(content.fileBytes, names: temporaryNames)
      return try RecordInspection(
        root.path.appending(PackedPlace(found).file), named: name.fileName, at: PackedPlace(found), file,
        file.status(), of: self, checkingUpTo: limit)
    } catch let damaged as DamagedRecord {
      guard let found = try packs.find(name, by: RecordJudge()), let place = found.packed else { return nil }
      let bytes = try packs.copy(of: name, at: PackAddress(rawValue: place.address)) ?? []
      let key = configuration.layout.naming.key(ofFileName: name.fileName)
      return RecordInspection(
        root.path.appending(place.file), damagedAt: place, damaged.error, key: key, bytes, of: self)
    }
  }
}

extension BlobStore {
  /// Returns the file at the path of a key's record that is foreign because of its owner.
  ///
  /// - Returns: The foreign file, or `nil` if there is a record or no file at the path.
  public func foreignRecord(for key: BlobKey) throws(BlobStoreError) -> ForeignRecord? {
    try withErrorContext("foreignRecord", key) {
      let name = try core.path(for: key)
      guard let open = try core.root.opened() else { return nil }
      let path = open.placed(name)
      return try core.lookInSubdirectory(of: path, open) { try open.foreignRecord(at: path, in: $0) }
    }
  }
}
