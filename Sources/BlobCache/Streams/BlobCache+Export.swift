public import BlobRecord
internal import BlobStore
public import SystemPackage

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
