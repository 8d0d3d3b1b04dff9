internal import BlobRecord
internal import BlobStore
internal import SystemPackage
internal import TextFormats

extension BlobStore.ForeignRecords {
  /// Returns a message that the cache's owner has changed, with the command that restores it.
  ///
  /// The owner has changed if nearly all files at record paths belong to another user.
  ///
  /// - Parameter records: The number of records.
  /// - Returns: The message, or `nil` if the owner has not changed.
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
  /// Reports the foreign record for a key that was not found.
  func reportForeignRecord(for key: BlobKey) {
    // The lookup itself succeeded. An error of this check does not change its result.
    guard let record = try? foreignRecord(for: key) else { return }
    StandardError.report("\(key.string): \(record.explanation): \(record.path)")
  }
}
