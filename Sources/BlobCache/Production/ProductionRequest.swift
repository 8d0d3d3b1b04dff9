internal import BlobRecord
internal import BlobStore

/// What is asked for by a load that produces what is missing.
struct ProductionRequest: Sendable {
  let key: BlobKey
  let options: ProductionOptions
  /// Whether a blob will do; one that will not is as good as missing.
  let isAcceptable: @Sendable (Blob) -> Bool
  let produce: @Sendable () async throws -> Produced
}

/// What a blob that is produced takes the place of, which decides its locks.
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
      payload: produced.payload, ttl: produced.ttl ?? options.ttl, locks: locks(produced.locks ?? options.locks))
    request.condition = condition
    return request
  }
}
