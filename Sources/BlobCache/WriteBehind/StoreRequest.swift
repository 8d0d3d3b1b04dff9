internal import BlobStore

#if canImport(FoundationEssentials)
  internal import FoundationEssentials
#else
  internal import Foundation
#endif

/// The blob of a store, with its options.
struct StoreRequest: Sendable {
  /// The caller's payload: perhaps a slice of more bytes, or a mapping of a file that changes.
  private(set) var payload: Data
  var ttl: Duration?
  var locks = BlobStore.LockPolicy.none
  /// A produced blob is stored only if this holds.
  var condition: StoreCondition?

  /// Locks are promised to outlive a power cut, which nothing in memory does.
  var mayBeStaged: Bool { locks == .none }

  /// Whether `payload` is a copy already.
  private var isOwn = false

  init(payload: Data, ttl: Duration? = nil, locks: BlobStore.LockPolicy = .none) {
    self.payload = payload
    self.ttl = ttl
    self.locks = locks
  }

  /// The payload in an allocation of its own size, for code that keeps it.
  ///
  /// Its indices begin at 0, as when it is read from disk.
  var ownPayload: Data { isOwn ? payload : unsafe payload.withUnsafeBytes { unsafe Data($0) } }

  /// This request with a payload of its own.
  var owned: StoreRequest {
    var request = self
    request.payload = ownPayload
    request.isOwn = true
    return request
  }
}
