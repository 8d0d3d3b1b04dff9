public import BlobRecord
internal import Locks
public import SystemPackage

extension BlobStore {
  /// Returns the path of the file in which the record of a key is stored: a header of 64 bytes, then the payload.
  ///
  /// No file exists if the record is missing or packed. `withExclusiveAccess(to:_:)` moves a packed record to a
  /// separate file, `export(_:to:touching:)` writes its payload to another path, and `Configuration.packing` with
  /// `.off` disables packing. An opened file stays whole even if the record is replaced, because a store replaces the
  /// file. Only its header may change.
  ///
  /// - Throws: `invalidKey`. Before the first operation, also the errors of opening the directory.
  /// - Complexity: No system call, except for the first operation, which opens the directory, and at most two in an
  ///   `adaptive` directory that has grown.
  public func filePath(for key: BlobKey) throws(BlobStoreError) -> FilePath {
    try withErrorContext("filePath", key) { try Records(core).filePath(for: key) }
  }

  /// Runs a closure while the key's record cannot be changed by other threads or processes.
  ///
  /// A packed record is first moved to a separate file, where it stays. Others can neither store, touch, lock,
  /// unlock, remove nor collect the record. They wait for at most their `lockTimeout` and then throw `busy`, so keep
  /// the closure short. Loads do not wait. If the directory does not exist, nothing is locked.
  ///
  /// The closure must not change anything through a store, because a change of the key, or of one key in 4096 that
  /// shares its lock, would wait for the closure itself. It may read the file, link to it and set extended
  /// attributes. It must not write to the file or replace it, because memory caches would not detect that.
  ///
  /// - Parameters:
  ///   - key: The key that others must not change during the closure.
  ///   - body: A closure that receives `filePath(for:)`, where a record may exist or not.
  /// - Throws: The errors of `body`; `busy` if others were changing the key for `lockTimeout`, without calling
  ///   `body`; `invalidKey`, `fileSystem`.
  public func withExclusiveAccess<Result>(to key: BlobKey, _ body: (FilePath) throws -> Result) throws -> Result {
    let result = try withErrorContext("withExclusiveAccess", key) {
      // An error of the closure is rethrown unchanged, because it is not an error of the store.
      var transaction = try Records(core).transaction(of: core.path(for: key))
      defer { extendLifetime(transaction) }
      try transaction?.moveToFile()
      // While the key is held, the path is that of the record, or of the next one.
      let file = try Records(core).filePath(for: key)
      return Swift.Result { try LockOrder.outside { try body(file) } }
    }
    return try result.get()
  }
}

extension Records {
  fileprivate func filePath(for key: BlobKey) throws -> FilePath {
    var path = try core.path(for: key)
    let isKnown = core.configuration.layout.arrangement != nil || core.root.arrangement != nil
    if core.lastArrangement == .adaptive || !isKnown {
      if let open = try core.root.opened() {
        path = try core.resolved(path, in: open)
      } else if path.arrangement == .adaptive {
        path = path.placed(isNarrow: true)
      }
    }
    return core.root.absolutePath.appending(path.relative)
  }
}
