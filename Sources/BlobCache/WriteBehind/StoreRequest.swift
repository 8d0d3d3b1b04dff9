internal import BlobRecord
internal import BlobStore

/// The blob of a store, with its options.
struct StoreRequest: Sendable {
  /// The caller's payload, which may be a slice of more bytes or a mapping of a file that changes.
  private(set) var payload: Data
  var ttl: Duration?
  var locks = BlobStore.LockPolicy.none
  private(set) var extendedData: Data?
  var condition: StoreCondition?
  /// The time at which another machine stored a blob from the remote tier, or `nil` for other blobs.
  var updateTime: UnixTime?
  /// A Boolean value that indicates whether the blob is from the remote tier, and is not uploaded.
  var isFetched: Bool { updateTime != nil }

  /// A Boolean value that indicates whether the blob may be staged: not with locks, which must survive a power failure.
  var mayBeStaged: Bool { locks == .none && !isFetched }

  private var isOwn = false

  init(
    payload: Data, ttl: Duration? = nil, locks: BlobStore.LockPolicy = .none, extendedData: Data? = nil
  ) {
    self.payload = payload
    self.ttl = ttl
    self.locks = locks
    self.extendedData = extendedData?.isEmpty == false ? extendedData : nil
  }

  /// The payload in an allocation of its size, with indices from 0, for code that keeps it.
  var ownPayload: Data { isOwn ? payload : unsafe payload.withUnsafeBytes { unsafe Data($0) } }

  private var ownExtendedData: Data? { isOwn ? extendedData : extendedData.map { Data(Array($0)) } }

  /// Returns the blob that memory keeps, with the header on disk.
  func ownBlob(_ key: BlobKey, _ header: RecordHeader) -> Blob {
    Blob(key: key, payload: ownPayload, header: header, extendedData: ownExtendedData)
  }

  func blob(_ key: BlobKey, _ header: RecordHeader) -> Blob {
    Blob(key: key, payload: payload, header: header, extendedData: extendedData)
  }

  var owned: StoreRequest {
    var request = self
    request.extendedData = ownExtendedData
    request.payload = ownPayload
    request.isOwn = true
    return request
  }
}
