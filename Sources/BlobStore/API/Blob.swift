public import BlobRecord

/// A blob as it was loaded: the payload, and the header it lay under.
public struct Blob: Sendable {
  public let key: BlobKey
  /// The bytes, in the allocation they were read into. `payload.bytes` is a `RawSpan` over them that copies nothing.
  public let payload: Data
  public let header: RecordHeader
  /// What was stored beside the payload, such as a content type: at most 4 KiB; nil for nothing.
  public let extendedData: Data?

  package init(key: BlobKey, payload: Data, header: RecordHeader, extendedData: Data? = nil) {
    self.key = key
    self.payload = payload
    self.header = header
    self.extendedData = extendedData
  }
}

extension BlobStore {
  /// The outcome of an operation on one key.
  public enum Outcome: String, Hashable, Sendable {
    case done
    /// No live record, or for a removal no record at all.
    case notFound
    /// An unlock found no lock; the record is unchanged.
    case notLocked
  }

  /// The result for one key among several.
  public struct KeyResult: Sendable {
    public let key: BlobKey
    public let result: Result<Outcome, BlobStoreError>

    package init(key: BlobKey, result: Result<Outcome, BlobStoreError>) {
      self.key = key
      self.result = result
    }
  }
}
