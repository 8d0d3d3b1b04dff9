public import BlobRecord
internal import BlobStore
public import SystemPackage

// Blobs that arrive or are read in pieces. They bypass memory, which is intended for small blobs.
extension BlobCache {
  /// Begins to store a blob whose payload arrives in pieces.
  ///
  /// The blob is visible only after `CacheWriter.commit`, unless `visibility` is `whileWriting`.
  ///
  /// - Parameters:
  ///   - key: The key of the blob.
  ///   - ttl: The time to live, counted from the commit, as for `store`.
  ///   - locks: The locks of the new record, as for `store`.
  ///   - expectedSize: The size of the payload in bytes, if known. A payload of another size is not stored.
  ///   - extendedData: The extended data, as for `store`.
  ///   - visibility: `whileWriting` makes the blob visible immediately, and followers read it while it is written.
  /// - Throws: The errors of `BlobStore.openWriter`; `CancellationError` during the wait for a thread; `closed`.
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

  /// Opens the live blob of a key for reads of its parts.
  ///
  /// It reads the disk, and holds no memory for the payload. A staged blob of the key is written first.
  ///
  /// - Parameters:
  ///   - key: The key of the blob.
  ///   - touching: A Boolean value that indicates whether this counts as a use of the record.
  /// - Returns: A reader, or `nil` if the key has no live record.
  /// - Throws: The errors of `BlobStore.openReader`; `CancellationError` during the wait for a thread; `closed`.
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
        // A fetched record replaces the damaged one. Otherwise, the damage is reported when the record is opened again.
      }
      try await engine.fetchFile(key)
      return try await open(tellsMiss: true)
    }
  }
}

extension BlobCache {
  /// Writes a key's payload to a file, which is created or replaced atomically.
  ///
  /// A staged blob of the key is written first. See `BlobReader.export`.
  ///
  /// - Parameters:
  ///   - key: The key of the blob.
  ///   - path: The path of the file.
  ///   - touching: A Boolean value that indicates whether this counts as a use of the record.
  /// - Returns: The size of the payload in bytes, or `nil` if nothing is written because the key has no live record.
  /// - Throws: The errors of `BlobStore.export`; `CancellationError` during the wait for a thread; `closed`.
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
  /// Writes the payload, or a range of it, to a file, which is created or replaced atomically.
  ///
  /// See `BlobReader.export`.
  ///
  /// - Parameters:
  ///   - range: The offsets in the payload, or `nil` for the whole payload. The checksum of a part is not verified.
  ///   - path: The path of the file.
  /// - Throws: The errors of `BlobReader.export`; `CancellationError` during the wait for a thread; `closed`.
  public func export(_ range: Range<Int64>? = nil, to path: FilePath) async throws {
    try await engine.lanes.copies.run { [blocking] _ in try blocking.export(range, to: path) }
  }
}

extension CacheEngine {
  /// Exports a payload. Blocks.
  fileprivate func export(_ key: BlobKey, to path: FilePath, touching: Bool, queueTime: Duration) throws -> Int64? {
    guard let reader = try openReader(for: key, touching: touching, queueTime: queueTime) else { return nil }
    try reader.export(to: path)
    return reader.byteCount
  }
}
