public import BlobRecord

extension BlobStore {
  /// Begins to store a blob whose payload arrives in pieces.
  ///
  /// Nothing is seen under the key before `BlobWriter.commit`, unless `visibility` says so. The pieces go to a temporary file at once, so the writer
  /// needs the same memory for a payload of any size. A process that dies leaves that file to the next collection. The key
  /// is held at the commit alone, so any number of writers may be open, also for one key. The last to commit wins.
  ///
  /// System calls: openat, flock, fstat, and fallocate where the size is known.
  ///
  /// - Parameters:
  ///   - key: the key of the record.
  ///   - ttl: the time to live, counted from the commit; as for `store`.
  ///   - locks: the locks of the new record; as for `store`.
  ///   - expectedSize: the payload's size in bytes, where it is known. Its blocks are set aside at once where the file
  ///     system can. More bytes are refused, and so is a commit with fewer.
  ///   - extendedData: what lies beside the payload; as for `store`.
  ///   - visibility: `whileWriting` puts the blob in its place at once, and followers read it while it grows.
  /// - Throws: `invalidKey`, `invalidTimeToLive`, `payloadTooLarge`, `sizeMismatch` for a size below zero,
  ///   `extendedDataTooLarge`, `extendedDataRefused`, `fileSystem`.
  public func openWriter(
    for key: BlobKey, ttl: Duration? = nil, locks: LockPolicy = .none, expectedSize: Int64? = nil,
    extendedData: Data? = nil, visibility: Visibility = .afterCommit
  ) throws(BlobStoreError) -> BlobWriter {
    try withErrorContext("store", key) {
      var writer = try BlobWriter(
        self, for: key, ttl: ttl, locks: locks, expectedSize: expectedSize, extendedData: extendedData)
      if visibility == .whileWriting { try writer.becomeVisible() }
      return writer
    }
  }
}
