internal import BlobRecord

/// A single pass over the records of a directory.
struct RecordSequence: Sequence, IteratorProtocol {
  var walk: RecordWalk?
  /// Names may begin like those of the keys with this prefix, and be others'.
  let keyPrefix: String

  func isWanted(_ entry: RecordEntry) -> Bool {
    guard !keyPrefix.isEmpty, entry.accessError == nil else { return true }
    return entry.key?.hasPrefix(keyPrefix) ?? false
  }

  mutating func next() -> RecordEntry? {
    do {
      while let item = try walk?.next() {
        if case .record(let entry) = item, isWanted(entry) { return entry }
      }
      return nil
    } catch {
      // The listing itself failed: that is the last element.
      walk = nil
      return RecordEntry(unreadable: "", BlobStoreError(error, operation: "records", key: nil))
    }
  }
}

extension StoreCore {
  func recordSequence(prefix: String) throws -> RecordSequence {
    RecordSequence(walk: try walk(fileNamePrefix: try fileNamePrefix(forKeyPrefix: prefix)), keyPrefix: prefix)
  }

  /// - Throws: `KeyError` where records do not tell their keys.
  func fileNamePrefix(forKeyPrefix prefix: String) throws(KeyError) -> String {
    let naming = configuration.layout.naming
    if naming == .sha256, configuration.format == .reference, !prefix.isEmpty { throw .notListable }
    return try naming.fileNamePrefix(forKeyPrefix: prefix)
  }

  /// - Returns: nil if there is no directory.
  func walk(fileNamePrefix: String = "", from start: WalkPosition? = nil) throws -> RecordWalk? {
    guard let open = try root.opened() else { return nil }
    return try records.walk(open, by: layout(of: open), fileNamePrefix: fileNamePrefix, from: start)
  }

  /// Refuses to clear out a directory that may be anything: a control file or one sound record shows that it is a cache.
  ///
  /// - Returns: false if nothing shows that, and there is nothing either that could be taken for a record.
  /// - Throws: `notACache`.
  @discardableResult
  func requireCache() throws -> Bool {
    if try hasControlFile() { return true }
    var hasCandidates = false
    var firstFailure: BlobStoreError?
    for entry in try recordSequence(prefix: "") {
      if entry.header != nil, entry.damage == nil { return true }
      if let error = entry.accessError, entry.path == nil { throw error }
      hasCandidates = true
      firstFailure = firstFailure ?? entry.accessError
    }
    // A file that could not be read may be a sound record.
    if let firstFailure { throw firstFailure }
    guard !hasCandidates else {
      throw BlobStoreError(
        .notACache, "there is no control file and no sound record in this directory, so it may be no cache at all",
        path: root.path)
    }
    return false
  }
}
