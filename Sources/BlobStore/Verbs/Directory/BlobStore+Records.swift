internal import BlobRecord
internal import Posix

extension BlobStore {
  /// The records of the directory, in no order, with their headers and without their payloads; nothing is touched.
  ///
  /// Expired and damaged ones are among them: `state` tells. A file that cannot be read is an element too, so that
  /// nothing is left out in silence. Records stored or removed during the enumeration may or may not be met.
  ///
  /// - Parameter prefix: what the keys begin with. Without one, all records, those included that do not tell their keys.
  /// - Throws: `invalidKey` for a prefix under the sha256 naming in the reference format; `fileSystem` if the root cannot
  ///   be listed.
  /// - Complexity: four system calls a record, and one more with an extension; memory does not grow with their number.
  public func records(prefix: String = "") throws(BlobStoreError) -> some Sequence<RecordEntry> {
    try withErrorContext("records") { try core.recordSequence(prefix: prefix) }
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
}

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
