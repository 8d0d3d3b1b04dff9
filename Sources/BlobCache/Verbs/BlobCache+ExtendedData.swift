public import BlobRecord
public import BlobStore

#if canImport(FoundationEssentials)
  public import FoundationEssentials
#else
  public import Foundation
#endif

extension BlobCache {
  /// What lies beside a key's payload on disk, or beside its staged blob, without a look at the payload.
  ///
  /// - Returns: nil if there is no live record, or nothing was stored beside its payload.
  /// - Throws: `BlobStoreError`; `CancellationError` while it waits for a thread; `closed`.
  public func extendedData(for key: BlobKey) async throws -> Data? {
    let engine = try openEngine()
    return try await withSpan("extendedData", key) {
      try await engine.lanes.reads.run { _ in try engine.extendedData(for: key) }
    }
  }

  /// Replaces what lies beside a key's payload. The payload, the locks and the age of the record stay as they are.
  ///
  /// A blob staged for the key is written before. Memory forgets the blob.
  ///
  /// - Parameter data: at most 4 KiB; nil or empty for nothing.
  /// - Returns: `done`; `notFound` if there is no live record.
  /// - Throws: as `extendedData(for:)`; `extendedDataTooLarge`; `extendedDataRefused` in a directory that
  ///   SPTPersistentCache may share; `writeFailed`.
  @discardableResult
  public func setExtendedData(_ data: Data?, for key: BlobKey) async throws -> BlobStore.Outcome {
    let engine = try openEngine()
    return try await withSpan("setExtendedData", key) {
      try await engine.lanes.writes.run { _ in try engine.setExtendedData(data, for: key) }
    }
  }
}

extension BlockingBlobCache {
  /// As `BlobCache.extendedData(for:)`.
  public func extendedData(for key: BlobKey) throws -> Data? { try cache.openEngine().extendedData(for: key) }

  /// As `BlobCache.setExtendedData(_:for:)`.
  @discardableResult
  public func setExtendedData(_ data: Data?, for key: BlobKey) throws -> BlobStore.Outcome {
    try cache.openEngine().setExtendedData(data, for: key)
  }
}
