public import BlobRecord

/// A loaded blob, with its payload and its header.
public struct Blob: Sendable {
  public let key: BlobKey
  /// The payload, whose `bytes` property is a `RawSpan` that accesses the payload without a copy.
  public let payload: Data
  public let header: RecordHeader
  /// The data stored next to the payload, such as a content type, of at most 4 KiB, or `nil` without such data.
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
    /// No live record exists for the key, or for a removal, no record at all.
    case notFound
    /// The record has no lock that could be released, and is unchanged.
    case notLocked
  }

  /// The result of an operation for one of several keys.
  public struct KeyResult: Sendable {
    public let key: BlobKey
    public let result: Result<Outcome, BlobStoreError>

    package init(key: BlobKey, result: Result<Outcome, BlobStoreError>) {
      self.key = key
      self.result = result
    }
  }
}
