public import BlobRecord
internal import Locks
public import SystemPackage

// Records as files, for programs that hand them to readers of files.
extension BlobStore {
  /// Where the record of a key lies or would lie as a file: a header of 64 bytes, then the payload.
  ///
  /// The record may be missing or expired, or lie in a pack: then there is no file. `withExclusiveAccess(to:_:)` gives a packed
  /// record a file of its own, `export(_:to:touching:)` writes its payload to another place, and `Configuration.packing` at
  /// `.off` packs none.
  ///
  /// A file once opened stays whole, even if the record is replaced: a store puts another file in its place. Only its
  /// header may change.
  ///
  /// - Throws: `invalidKey`. Before the first operation, also what opening the directory throws.
  /// - Complexity: no system call, but for the first operation, which opens the directory.
  public func filePath(for key: BlobKey) throws(BlobStoreError) -> FilePath {
    try withErrorContext("filePath", key) { try core.filePath(for: key) }
  }

  /// Runs a closure while no other thread or process changes a key's record.
  ///
  /// A record that lies in a pack gets a file of its own first, and keeps it.
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
      let digest = try core.path(for: key).digest
      // An error of the closure goes to the caller as it is, and is no error of the store.
      var hold = try core.hold(digest)
      defer { extendLifetime(hold) }
      if let open = try core.root.opened() {
        try core.records.moveToFile(open.placed(try core.path(for: key)), in: open, &hold)
      }
      let file = try core.filePath(for: key)
      return Swift.Result { try LockOrder.outside { try body(file) } }
    }
    return try result.get()
  }
}

extension StoreCore {
  fileprivate func filePath(for key: BlobKey) throws -> FilePath {
    var path = try path(for: key)
    if configuration.layout.arrangement == nil, root.arrangement == nil, let open = try root.opened() {
      path = open.placed(path)
    }
    return root.absolutePath.appending(path.relative)
  }
}
