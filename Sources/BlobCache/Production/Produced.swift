public import BlobStore

/// A producer's payload, and how to store it.
///
/// An HTTP client sets `ttl` from `max-age`, and `isStored` to false for `no-store`.
public struct Produced: Sendable {
  public var payload: Data
  /// The time to live; nil for that of the options.
  public var ttl: Duration?
  /// The locks; nil for those of the options.
  public var locks: BlobStore.LockPolicy?
  /// Whether the blob is stored. If not, the callers that wait get it, and the next call produces again.
  public var isStored: Bool
  /// What lies beside the payload, such as a content type: at most 4 KiB; nil for nothing.
  public var extendedData: Data?

  public init(
    _ payload: Data, ttl: Duration? = nil, locks: BlobStore.LockPolicy? = nil, isStored: Bool = true,
    extendedData: Data? = nil
  ) {
    self.payload = payload
    self.ttl = ttl
    self.locks = locks
    self.isStored = isStored
    self.extendedData = extendedData
  }
}
