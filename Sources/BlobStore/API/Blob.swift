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
