public import BlobRecord
internal import BlobStore
public import SystemPackage

// Blobs that arrive, or are read, in pieces. They bypass memory, which is for small blobs.
extension BlobCache {
  /// Begins to store a blob whose payload arrives in pieces.
  ///
  /// Nothing is seen under the key before `CacheWriter.commit`, unless `visibility` says so. See `BlobStore.openWriter`.
  ///
  /// - Parameters:
  ///   - key: what it is found by.
  ///   - ttl: the time to live, counted from the commit; as for `store`.
  ///   - locks: the locks of the new record; as for `store`.
  ///   - expectedSize: the payload's size in bytes, where it is known. A payload of another size is not stored.
  ///   - extendedData: what lies beside the payload; as for `store`.
  ///   - visibility: `whileWriting` puts the blob in its place at once, and followers read it while it grows.
  /// - Throws: as `BlobStore.openWriter`; `CancellationError` if the task is cancelled while it waits for a thread;
  ///   `closed`.
  public func openWriter(
    for key: BlobKey, ttl: Duration? = nil, locks: BlobStore.LockPolicy = .none, expectedSize: Int64? = nil,
    extendedData: Data? = nil, visibility: BlobStore.Visibility = .afterCommit
  ) async throws -> CacheWriter {
    let engine = try openEngine()
    return try await engine.lanes.writes.run { _ in
      try engine.openWriter(
        for: key, ttl: ttl, locks: locks, expectedSize: expectedSize, extendedData: extendedData, visibility: visibility
      )
    }
  }

  /// Opens the blob of a key for reads of its parts, if it is live.
  ///
  /// It looks on disk, and takes no memory for the payload. A blob that is staged for the key is written first.
  ///
  /// - Parameters:
  ///   - key: the blob's.
  ///   - touching: whether this is a use of the record.
  /// - Returns: nil if there is no record, or it is expired and not locked.
  /// - Throws: as `BlobStore.openReader`; `CancellationError` if the task is cancelled while it waits for a thread;
  ///   `closed`.
  public func openReader(for key: BlobKey, touching: Bool = true) async throws -> CacheReader? {
    let engine = try openEngine()
    return try await withSpan("openReader", key) {
      func open(tellsMiss: Bool) async throws -> CacheReader? {
        try await engine.lanes.reads.run { queueTime in
          try engine.openReader(for: key, touching: touching, queueTime: queueTime, tellsMiss: tellsMiss)
            .map { CacheReader(engine, $0) }
        }
      }
      guard engine.remote != nil else { return try await open(tellsMiss: true) }
      if engine.revalidates { _ = try await engine.revalidate(key, intoFile: true) }
      do {
        if let reader = try await open(tellsMiss: false) { return reader }
      } catch let error as BlobStoreError where error.recordError?.mayBeReplaced ?? false {
        // What comes takes the damaged record's place; else it is opened again, and reported.
      }
      try await engine.fetchFile(key)
      return try await open(tellsMiss: true)
    }
  }
}

// Payloads as files of their own, without a header.
extension BlobCache {
  /// Writes a key's payload to a file, which is made, or replaced as a whole.
  ///
  /// A blob that is staged for the key is written first. See `BlobReader.export`.
  ///
  /// - Parameters:
  ///   - key: the blob's.
  ///   - path: where the file is to lie.
  ///   - touching: whether this is a use of the record.
  /// - Returns: the payload's size in bytes; nil if there is no record, or it is expired and not locked, and nothing is
  ///   written.
  /// - Throws: as `BlobStore.export`; `CancellationError` if the task is cancelled while it waits for a thread; `closed`.
  @discardableResult
  public func export(_ key: BlobKey, to path: FilePath, touching: Bool = true) async throws -> Int64? {
    let engine = try openEngine()
    return try await withSpan("export", key) {
      try await engine.lanes.copies.run { queueTime in
        try engine.export(key, to: path, touching: touching, queueTime: queueTime)
      }
    }
  }
}

extension CacheReader {
  /// Writes the payload, or a range of it, to a file, which is made, or replaced as a whole.
  ///
  /// See `BlobReader.export`.
  ///
  /// - Parameters:
  ///   - range: offsets in the payload; nil for all of it. The checksum of a part is not compared.
  ///   - path: where the file is to lie.
  /// - Throws: as `BlobReader.export`; `CancellationError` if the task is cancelled while it waits for a thread; `closed`.
  public func export(_ range: Range<Int64>? = nil, to path: FilePath) async throws {
    try await engine.lanes.copies.run { [blocking] _ in try blocking.export(range, to: path) }
  }
}

extension CacheEngine {
  /// Blocks.
  fileprivate func export(_ key: BlobKey, to path: FilePath, touching: Bool, queueTime: Duration) throws -> Int64? {
    guard let reader = try openReader(for: key, touching: touching, queueTime: queueTime) else { return nil }
    try reader.export(to: path)
    return reader.byteCount
  }
}
