public import BlobRecord
public import SystemPackage

// Records as files, for who hands them to something else that reads files.
extension BlobStore {
  /// Where the record of a key lies, or would lie: a header of `RecordHeader.byteCount` bytes, 64, then the payload as it
  /// was stored.
  ///
  /// Nothing says that there is a record, or that it is live. A file once opened stays whole, whatever becomes of the
  /// record: a store puts another file in its place. Only its header may change.
  ///
  /// - Throws: `invalidKey`.
  /// - Complexity: no system call.
  public func filePath(for key: BlobKey) throws(BlobStoreError) -> FilePath {
    try reporting("filePath", key) { core.root.absolutePath.appending(try core.path(for: key).relative) }
  }

  /// Runs a closure while nobody else, in whatever process, stores, touches, locks, unlocks, removes or collects a key's
  /// record. Loads do not wait: they see the record as it is.
  ///
  /// Others wait for the closure as for any change, for their `lockTimeout` at the most, and are `busy` then: it is to be
  /// short. A change of the key within it is itself one of these, as is one of the keys, one in 4096, that share the lock;
  /// so the closure is not to change anything through a store.
  ///
  /// It may read the file, link to it and give it extended attributes. It is not to write to it or replace it: nothing
  /// would tell the memory of caches, nor the checksum. Where the directory does not exist, there is nothing to lock.
  ///
  /// - Parameters:
  ///   - key: the key that others must leave alone meanwhile.
  ///   - body: receives `filePath(for:)`, where a record may lie or not.
  /// - Throws: what `body` throws; `busy` if others were changing the key for `lockTimeout`, `body` not having been called;
  ///   `invalidKey`, `fileSystem`.
  public func withExclusiveAccess<Result>(to key: BlobKey, _ body: (FilePath) throws -> Result) throws -> Result {
    let result = try reporting("withExclusiveAccess", key) {
      let path = try core.path(for: key)
      let file = core.root.absolutePath.appending(path.relative)
      // What the closure throws is its caller's, and no error of the store.
      return try core.stripes.withStripe(of: path.digest) { _ in Swift.Result { try body(file) } }
    }
    return try result.get()
  }
}
