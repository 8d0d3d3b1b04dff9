public import BlobRecord
internal import Locks
public import SystemPackage

// Records as files, for programs that hand them to readers of files.
extension BlobStore {
  /// Where the record of a key lies or would lie: a header of 64 bytes, then the payload.
  ///
  /// The record may be missing or expired. A file once opened stays whole, even if the record is replaced: a store puts
  /// another file in its place. Only its header may change.
  ///
  /// - Throws: `invalidKey`.
  /// - Complexity: no system call.
  public func filePath(for key: BlobKey) throws(BlobStoreError) -> FilePath {
    try withErrorContext("filePath", key) { core.root.absolutePath.appending(try core.path(for: key).relative) }
  }

  /// Runs a closure while no other thread or process changes a key's record.
  ///
  /// Others can neither store, touch, lock, unlock, remove nor collect it. They wait as for any change, for their
  /// `lockTimeout` at most, and are then `busy`, so keep it short. Loads do not wait: they see the record as it is.
  ///
  /// The closure must not change anything through a store. A change of the key waits for the closure itself. So does a
  /// change of one key in 4096, which share the lock.
  ///
  /// It may read the file, link to it and give it extended attributes. It must not write to it or replace it: neither
  /// the memory of caches nor the checksum would tell. Where the directory does not exist, there is nothing to lock.
  ///
  /// - Parameters:
  ///   - key: the key that others must leave alone meanwhile.
  ///   - body: receives `filePath(for:)`, where a record may lie or not.
  /// - Throws: what `body` throws; `busy` if others were changing the key for `lockTimeout`, `body` not having been
  ///   called; `invalidKey`, `fileSystem`.
  public func withExclusiveAccess<Result>(to key: BlobKey, _ body: (FilePath) throws -> Result) throws -> Result {
    let result = try withErrorContext("withExclusiveAccess", key) {
      let path = try core.path(for: key)
      let file = core.root.absolutePath.appending(path.relative)
      // An error of the closure goes to the caller as it is, and is no error of the store.
      let hold = try core.stripes.hold(path.digest)
      defer { extendLifetime(hold) }
      return Swift.Result { try LockOrder.outside { try body(file) } }
    }
    return try result.get()
  }
}
