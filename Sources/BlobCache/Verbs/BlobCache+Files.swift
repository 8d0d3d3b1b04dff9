public import BlobRecord
internal import BlobStore
public import SystemPackage

// Records as files, for programs that hand them to readers of files.
extension BlobCache {
  /// Where the record of a key lies or would lie as a file: a header of 64 bytes, then the payload.
  ///
  /// The record may be missing or expired, and a staged blob is not there yet. A packed record has no file:
  /// `withExclusiveAccess(to:_:)` gives it one, `export(_:to:touching:)` writes its payload to another place, and
  /// `store.packing` at `.off` packs none. This does not look at the disk.
  ///
  /// - Throws: `invalidKey`; `closed`.
  public func filePath(for key: BlobKey) throws -> FilePath {
    try openEngine().store.filePath(for: key)
  }

  /// Runs a closure while no other thread or process changes a key's record.
  ///
  /// Others can neither store, touch, lock, unlock, remove nor collect it: they wait for their `lockTimeout` at most,
  /// and are then `busy`. Loads do not wait. A blob that is staged for the key is written first. A record that lies in a
  /// pack gets a file of its own then, and keeps it.
  ///
  /// The closure may read the file, link to it and give it extended attributes. It must not write to the file, nor
  /// change anything through the cache: that would wait for itself.
  ///
  /// - Parameters:
  ///   - key: the record's.
  ///   - body: receives `filePath(for:)`, where a record may lie or not, on a thread of the cache's; it may block.
  /// - Throws: what `body` throws; `busy` if others were changing the key for `lockTimeout`; else as `touch`.
  public func withExclusiveAccess<Result: Sendable>(
    to key: BlobKey, _ body: @escaping @Sendable (FilePath) throws -> Result
  ) async throws -> Result {
    let engine = try openEngine()
    return try await withSpan("withExclusiveAccess", key) {
      try await engine.lanes.writes.run { _ in try engine.withExclusiveAccess(to: key, body) }
    }
  }
}
