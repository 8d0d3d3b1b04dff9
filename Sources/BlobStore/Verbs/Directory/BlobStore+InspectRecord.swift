public import BlobRecord
internal import Posix
package import SystemPackage

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
    try withErrorContext("inspect", key) {
      try Records(core).inspection(at: core.path(for: key), checkingUpTo: byteCount)
    }
  }

  /// Inspects the record file at a path relative to the directory, such as `11/a`, without touching it.
  ///
  /// The file is opened beneath the directory, and no link in the path is followed, because a link could lead to a file
  /// that the caller must not see.
  ///
  /// - Returns: The inspection, or `nil` if no file exists. Packed records have no file.
  /// - Throws: `foreignFile` if a component of the path is a link, if the path does not lead to a regular file, or if it
  ///   is absolute or contains `.` or `..`; the errors of `inspect`.
  package func inspectRecord(
    inFile path: FilePath, checkingUpTo byteCount: UInt64
  ) throws(BlobStoreError) -> RecordInspection? {
    try withErrorContext("inspect") {
      guard path.isRelative, path.components.allSatisfy({ $0.kind == .regular }) else {
        throw BlobStoreError(.foreignFile, "the path is not one of a record", path: path)
      }
      guard let open = try core.root.opened() else { return nil }
      let records = Records(core)
      return try records.fileInspection(at: path.string, in: open, records.inspectionLimit(byteCount))
    }
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
    return try withErrorContext("inspect") { try Records(core).inspection(at: path, checkingUpTo: byteCount) }
  }
}

extension Records {
  fileprivate func inspection(at path: RecordPath, checkingUpTo byteCount: UInt64) throws -> RecordInspection? {
    guard let open = try core.root.opened() else { return nil }
    let (path, limit) = (try core.resolved(path, in: open), inspectionLimit(byteCount))
    if let inspection = try packedInspection(of: path, in: open, limit) { return inspection }
    // Otherwise the record may have been packed after the lookup in the packs.
    return try fileInspection(at: path.relative, in: open, limit) ?? packedInspection(of: path, in: open, limit)
  }

  /// Inspects a file beneath the root, without following links.
  fileprivate func fileInspection(
    at relativePath: String, in open: OpenRoot, _ limit: UInt64
  ) throws -> RecordInspection? {
    let inspection = try fileInspectionOnce(at: relativePath, in: open, limit)
    // A header that is being changed in place may have been read half written.
    return inspection?.damage == nil ? inspection : try fileInspectionOnce(at: relativePath, in: open, limit)
  }

  private func fileInspectionOnce(
    at relativePath: String, in open: OpenRoot, _ limit: UInt64
  ) throws -> RecordInspection? {
    let path = core.root.path.appending(relativePath)
    switch try open.directory.openFile(relativePath, for: .read) {
    case .absent: return nil
    case .notRegular: throw BlobStoreError(.foreignFile, "this is no regular file", path: path)
    case .regular(let file, let status):
      let name = path.lastComponent?.string ?? relativePath
      return try RecordInspection(path, named: name, file, status, of: core, checkingUpTo: limit)
    }
  }

  private func packedInspection(
    of name: RecordPath, in open: OpenRoot, _ limit: UInt64
  ) throws -> RecordInspection? {
    guard let packs = try packs(of: open) else { return nil }
    do {
      guard let (found, content) = try packs.content(of: name) else { return nil }
      let file = try open.memoryFile(content.fileBytes, names: core.temporaryNames)
      return try RecordInspection(
        core.root.path.appending(PackedPlace(found).file), named: name.fileName, at: PackedPlace(found), file,
        file.status(), of: core, checkingUpTo: limit)
    } catch let damaged as DamagedRecord {
      guard let found = try packs.find(name, by: RecordJudge()), let place = found.packed else { return nil }
      let bytes = try packs.copy(of: name, at: PackAddress(rawValue: place.address)) ?? []
      let key = core.configuration.layout.naming.key(ofFileName: name.fileName)
      return RecordInspection(
        core.root.path.appending(place.file), damagedAt: place, damaged.error, key: key, bytes, of: core)
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
      let path = try core.resolved(name, in: open)
      return try core.lookUpInSubdirectory(of: path, open) { try open.foreignRecord(at: path, in: $0) }
    }
  }
}
