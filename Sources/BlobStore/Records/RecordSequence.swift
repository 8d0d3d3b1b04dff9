internal import BlobRecord

struct RecordSequence: Sequence, IteratorProtocol {
  var walk: RecordWalk?
  /// The prefix of the requested keys. Other keys may have file names with the same prefix.
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
      // The listing itself failed, so the error is the last element.
      walk = nil
      return RecordEntry(unreadable: "", BlobStoreError(error, operation: "records", key: nil))
    }
  }
}

extension Records {
  func recordSequence(prefix: String) throws -> RecordSequence {
    RecordSequence(walk: try walk(fileNamePrefix: try fileNamePrefix(forKeyPrefix: prefix)), keyPrefix: prefix)
  }

  /// - Throws: `KeyError` if records do not contain their keys.
  func fileNamePrefix(forKeyPrefix prefix: String) throws(KeyError) -> String {
    let naming = core.configuration.layout.naming
    if naming == .sha256, core.configuration.format == .reference, !prefix.isEmpty { throw .notListable }
    return try naming.fileNamePrefix(forKeyPrefix: prefix)
  }

  func walk(fileNamePrefix: String = "", from start: WalkPosition? = nil) throws -> RecordWalk? {
    guard let open = try core.root.opened() else { return nil }
    return try walk(open, by: core.layout(of: open), fileNamePrefix: fileNamePrefix, from: start)
  }

  /// Checks that a directory is a cache before it is cleared: it has a control file or at least one sound record.
  /// Returns `false` if it has neither, nor anything that could be taken for a record.
  ///
  /// - Throws: `notACache` if there are only candidates that are not sound records.
  @discardableResult
  func requireCache() throws -> Bool {
    if try core.hasControlFile() { return true }
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
        path: core.root.path)
    }
    return false
  }
}
