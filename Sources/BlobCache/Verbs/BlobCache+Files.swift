public import BlobRecord
internal import BlobStore
public import SystemPackage

// Records as files, for who hands them to something else that reads files.
extension BlobCache {
  /// Where the record of a key lies, or would lie: a header of 64 bytes, then the payload as it was stored. Nothing says that
  /// there is a record, or that it is live; a blob that is staged is not there yet. Does not go to disk.
  ///
  /// - Throws: `invalidKey`; `closed`.
  public func filePath(for key: BlobKey) throws -> FilePath {
    try openEngine().store.filePath(for: key)
  }

  /// Runs a closure while nobody else, in whatever process, stores, touches, locks, unlocks, removes or collects a key's
  /// record. Loads do not wait. A blob that is staged for the key is written first.
  ///
  /// Others wait for the closure for their `lockTimeout` at the most, and are `busy` then. It may read the file, link to it
  /// and give it extended attributes; it is not to write to it, and not to change anything through the cache: that would
  /// wait for itself.
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
