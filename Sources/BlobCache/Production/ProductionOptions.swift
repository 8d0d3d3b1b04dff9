internal import BlobRecord
public import BlobStore

/// The options of `load(_:orStore:)` for a missing blob.
public struct ProductionOptions: Hashable, Sendable {
  /// The time to live of the produced blob, or `nil` for the default expiration from the last access.
  public var ttl: Duration?
  /// The locks of the produced blob. A blob that is refreshed keeps its locks instead.
  public var locks: BlobStore.LockPolicy
  /// A Boolean value that indicates whether a produced blob is returned even if it cannot be stored.
  ///
  /// The volume may be full, locked records may fill the limit, or the blob may be too large. An event (`writeFailed`)
  /// and the log report the error, and the next call produces the blob again. If `false`, the error is thrown.
  public var answersUnstored = false
  /// The time for which an error of the producer is remembered, or `nil` to not remember it.
  public var remembersFailuresFor: Duration?
  /// The age from which on a live blob is returned and refreshed in the background, or `nil` to never refresh.
  ///
  /// The age counts from the store, and only applies to blobs with their own `ttl`.
  public var refreshesAfter: Duration?
  /// The maximum fraction, from 0 to 1, by which `refreshesAfter` is randomly shortened for each key and cache.
  ///
  /// So processes and machines do not all refresh a blob simultaneously. Any other number counts as 0.
  public var refreshSpread: Double = 0
  /// The time after its expiration for which a blob is returned if its producer fails, or `nil` to throw the error.
  ///
  /// The blob must still be on disk, because a collection removes expired blobs. The next call tries to produce, unless
  /// the error is remembered. An event (`stale`) reports the error. A cancelled task gets `CancellationError`.
  public var staleIfError: Duration?
  /// A Boolean value that indicates whether only one process that shares the directory produces a blob at a time.
  ///
  /// Other processes wait until the blob is stored, at most `waitsForOthers`.
  public var acrossProcesses = false
  /// The time to wait for another process before producing anyway.
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
/// An HTTP client sets `ttl` from `max-age`, and `isStored` to `false` for `no-store`.
public struct Produced: Sendable {
  public var payload: Data
  /// The time to live, or `nil` for the one in the options.
  public var ttl: Duration?
  /// The locks, or `nil` for the ones in the options.
  public var locks: BlobStore.LockPolicy?
  /// A Boolean value that indicates whether the blob is stored. If `false`, only waiting callers get it.
  public var isStored: Bool
  /// The extended data, such as a content type, of at most 4 KiB.
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

struct ProductionRequest: Sendable {
  let key: BlobKey
  let options: ProductionOptions
  /// A closure that returns whether a blob is acceptable. An unacceptable blob counts as missing.
  let isAcceptable: @Sendable (Blob) -> Bool
  let produce: @Sendable () async throws -> Produced
}

/// The state of the key before a store, which determines the locks of the produced blob.
enum ProductionPlace: Sendable {
  /// No live blob.
  case empty
  /// A live blob that is not acceptable. The owner of its lock still relies on the lock.
  case unacceptable
  /// A blob that is refreshed, and got its locks when it was first stored.
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
