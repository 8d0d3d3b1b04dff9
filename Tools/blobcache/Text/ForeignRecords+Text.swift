internal import BlobRecord
internal import BlobStore
internal import SystemPackage
internal import TextFormats

extension BlobStore.ForeignRecords {
  /// Tells that a cache has changed its owner, and how to mend it.
  ///
  /// That is so if nearly all files in records' places are another user's.
  ///
  /// - Parameter records: how many records there are.
  /// - Returns: nil for a cache that has not.
  func changeOfOwner(of directory: FilePath, beside records: Int64) -> String? {
    guard files > 0, records <= files / 9, let user, let recordUser else { return nil }
    let all = records == 0 ? "all \(files)" : "\(files) of \(files.saturatingAdding(records))"
    return "\(directory): \(all) files where records would lie belong to others, most to user \(user): "
      + "run as that user, or `chown -R \(recordUser) \(directory)`"
  }
}

extension JSONObject {
  mutating func add(_ records: BlobStore.ForeignRecords) {
    add("foreignRecords", records.files)
    add("foreignRecordBytes", records.bytes)
    add("foreignRecordUser", records.user)
  }
}

extension BlobStore {
  /// Tells of the foreign record under a key that was not found.
  func reportForeignRecord(for key: BlobKey) {
    // The key was looked for without an error; what keeps it from being looked at now changes nothing of the answer.
    guard let record = try? foreignRecord(for: key) else { return }
    StandardError.report("\(key.string): \(record.explanation): \(record.path)")
  }
}
