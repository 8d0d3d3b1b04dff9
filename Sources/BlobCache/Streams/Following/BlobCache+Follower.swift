public import BlobRecord
internal import BlobStore

// Blobs that are read while they are written.
extension BlobCache {
  /// Opens the blob of a key that is live or being written. Reads wait for bytes that are not written yet.
  ///
  /// See `BlobStore.openFollower`. A blob that is staged for the key is written first.
  ///
  /// - Parameters:
  ///   - key: the blob's.
  ///   - timeout: how long each read waits for another byte.
  ///   - touching: whether this is a use of the record.
  /// - Returns: nil if there is no record, or it is expired and not locked.
  /// - Throws: as `BlobStore.openFollower`; `CancellationError` if the task is cancelled while it waits for a thread;
  ///   `closed`.
  public func openFollower(
    for key: BlobKey, timeout: Duration = .seconds(30), touching: Bool = true
  ) async throws -> CacheFollower? {
    let engine = try openEngine()
    return try await withSpan("openFollower", key) {
      try await engine.lanes.reads.run { queueTime in
        try engine.openFollower(for: key, timeout: timeout, touching: touching, queueTime: queueTime)
          .map { CacheFollower(engine, $0, nil) }
      }
    }
  }

  /// A reader of the blob of a key, which is produced piece by piece if it is missing.
  ///
  /// The first that asks for a missing blob runs the producer. All that ask meanwhile read what it has written and follow it,
  /// also in other processes. When the producer returns, the blob is stored. If it throws, nothing is stored, and the
  /// readers of this process get its error, those of others `streamBroken`.
  ///
  /// The producer is a task of its own. It is cancelled when the last reader of this process is gone, unless
  /// `finishesAlone` is set.
  ///
  /// - Parameters:
  ///   - key: the blob's.
  ///   - options: how it is produced and read.
  ///   - produce: writes the blob. It may say of the record what it knows only then.
  /// - Throws: as `openFollower`, `openWriter`.
  public func stream(
    _ key: BlobKey, options: StreamOptions = StreamOptions(),
    _ produce: @escaping @Sendable (_ writer: StreamProducer) async throws -> Void
  ) async throws -> CacheFollower {
    let engine = try openEngine()
    return try await withSpan("stream", key) { try await engine.stream(key, options, produce) }
  }
}
