internal import BlobRecord
public import BlobStore

/// How `load(_:orStore:)` goes about a blob that is missing.
public struct ProductionOptions: Hashable, Sendable {
  /// The time to live of the produced blob, or nil for the default expiration.
  ///
  /// That one is counted from the last access.
  public var ttl: Duration?
  /// The locks of the blob produced. A blob that is refreshed for its age keeps the locks it has, whatever this says.
  public var locks: BlobStore.LockPolicy
  /// Whether a produced blob that cannot be stored is answered all the same.
  ///
  /// The volume may be full, the limit reached by locked records, or the blob too large. An event (`writeFailed`) and
  /// the log tell of it, and the next call produces the blob again. If false, the default, the store's error is thrown.
  public var answersUnstored = false
  /// How long a failure of the producer is remembered; nil not to.
  ///
  /// Until then the failure is thrown to each call for the key, without producing. It is rounded up to a second. A
  /// store of the key ends it, and so does the end of the process. Cancellations are not remembered.
  public var remembersFailuresFor: Duration?
  /// The age from which on a live blob is answered and produced anew; nil not to.
  ///
  /// It counts from the store, so only blobs with a `ttl` of their own have an age.
  public var refreshesAfter: Duration?
  /// The part of `refreshesAfter`, from 0 to 1, by which the age is less: a share of it by chance, for each key and cache. Another number counts as 0.
  ///
  /// So processes and machines that have one blob do not all produce it at once.
  public var refreshSpread: Double = 0
  /// How long after its end an expired blob is answered if its producer fails; nil not to.
  ///
  /// The blob must still be on disk: a collection removes it. It is not stored anew, so the next call tries to produce again,
  /// unless the failure is remembered. An event (`stale`) tells of the error. A cancelled task gets `CancellationError`.
  public var staleIfError: Duration?
  /// Whether one process at a time produces a blob, of all that share the directory.
  ///
  /// The second one waits until the blob is there, at most `waitsForOthers`.
  public var acrossProcesses = false
  /// How long to wait for another process, before producing all the same.
  public var waitsForOthers: Duration

  public init(
    ttl: Duration? = nil, locks: BlobStore.LockPolicy = .keep, answersUnstored: Bool = false,
    remembersFailuresFor: Duration? = nil, refreshesAfter: Duration? = nil, staleIfError: Duration? = nil,
    acrossProcesses: Bool = false, waitsForOthers: Duration = .seconds(10)
  ) {
    self.ttl = ttl
    self.locks = locks
    self.answersUnstored = answersUnstored
    self.remembersFailuresFor = remembersFailuresFor
    self.refreshesAfter = refreshesAfter
    self.staleIfError = staleIfError
    self.acrossProcesses = acrossProcesses
    self.waitsForOthers = waitsForOthers
  }
}

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

/// The request of a load that produces a missing blob.
struct ProductionRequest: Sendable {
  let key: BlobKey
  let options: ProductionOptions
  /// Whether a blob is acceptable; one that is not is as good as missing.
  let isAcceptable: @Sendable (Blob) -> Bool
  let produce: @Sendable () async throws -> Produced
}

/// The place that a produced blob takes, which decides its locks.
enum ProductionPlace: Sendable {
  /// Nothing that is live.
  case empty
  /// A live blob that is not acceptable: the holder of its lock still counts on it.
  case unacceptable
  /// A blob that is refreshed: it got its locks when it was first stored.
  case aged

  private func locks(_ policy: BlobStore.LockPolicy) -> BlobStore.LockPolicy {
    switch self {
    case .empty: policy.replacingNothing
    case .unacceptable: policy
    case .aged: .keep
    }
  }

  func storeRequest(_ produced: Produced, _ options: ProductionOptions, if condition: StoreCondition) -> StoreRequest {
    var request = StoreRequest(
      payload: produced.payload, ttl: produced.ttl ?? options.ttl, locks: locks(produced.locks ?? options.locks),
      extendedData: produced.extendedData)
    request.condition = condition
    return request
  }
}
