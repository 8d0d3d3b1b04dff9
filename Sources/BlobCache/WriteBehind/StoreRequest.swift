internal import BlobRecord
internal import BlobStore

/// The blob of a store, with its options.
struct StoreRequest: Sendable {
  /// The caller's payload: perhaps a slice of more bytes, or a mapping of a file that changes.
  private(set) var payload: Data
  var ttl: Duration?
  var locks = BlobStore.LockPolicy.none
  /// What lies beside the payload; nil for nothing.
  private(set) var extendedData: Data?
  /// A produced blob is stored only if this holds.
  var condition: StoreCondition?
  /// When a blob that comes from the remote tier was stored by the machine that did; nil for now, and for all others.
  var updateTime: UnixTime?
  /// Whether it comes from the remote tier, and does not go there.
  var isFetched: Bool { updateTime != nil }

  /// Locks are promised to outlive a power cut, which nothing in memory does.
  var mayBeStaged: Bool { locks == .none && !isFetched }

  /// Whether `payload` is a copy already.
  private var isOwn = false

  init(
    payload: Data, ttl: Duration? = nil, locks: BlobStore.LockPolicy = .none, extendedData: Data? = nil
  ) {
    self.payload = payload
    self.ttl = ttl
    self.locks = locks
    self.extendedData = extendedData?.isEmpty == false ? extendedData : nil
  }

  /// The payload in an allocation of its own size, for code that keeps it.
  ///
  /// Its indices begin at 0, as when it is read from disk.
  var ownPayload: Data { isOwn ? payload : unsafe payload.withUnsafeBytes { unsafe Data($0) } }

  /// The extended data in an allocation of their own.
  private var ownExtendedData: Data? { isOwn ? extendedData : extendedData.map { Data(Array($0)) } }

  /// The blob that memory keeps, under the header that lies on disk.
  func ownBlob(_ key: BlobKey, _ header: RecordHeader) -> Blob {
    Blob(key: key, payload: ownPayload, header: header, extendedData: ownExtendedData)
  }

  /// The blob as the caller gave it.
  func blob(_ key: BlobKey, _ header: RecordHeader) -> Blob {
    Blob(key: key, payload: payload, header: header, extendedData: extendedData)
  }

  /// This request with a payload of its own.
  var owned: StoreRequest {
    var request = self
    request.extendedData = ownExtendedData
    request.payload = ownPayload
    request.isOwn = true
    return request
  }
}
