internal import BlobRecord
internal import BlobStore

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
