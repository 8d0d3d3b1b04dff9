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
