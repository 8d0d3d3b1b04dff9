internal import BlobStore
internal import Locks
internal import Logging

/// The consequences of successes and failures.
extension RemoteRequests {
  func noteSuccess(_ breaker: CircuitBreaker) {
    // A warning, like the earlier message that the engine is skipped.
    if breaker.succeed() { environment.logger.warning("\(tier.engine.name) answers again") }
  }

  /// Counts and reports a failed request, and returns its error.
  func note(
    _ error: any Error, of key: BlobKey, _ kind: Kind, _ ticket: CircuitBreaker.Ticket
  ) -> RemoteError {
    let breaker = breaker(for: kind)
    var failure = RemoteError(anything: error, from: tier.engine.name)
    let here = (failure.cause ?? error) as? BlobStoreError
    if let here { failure = RemoteError(.unsupported, "\(key) cannot be read here: \(here)", cause: here) }
    counts.change { counts in
      counts.requests += 1
      if failure.kind == .forbidden { counts.forbidden += 1 }
      // A forbidden load is a miss.
      if failure.kind != .forbidden || kind != .load { counts.failures += 1 }
      if failure.kind == .damaged { counts.damaged += 1 }
    }
    var isReported = true
    switch failure.kind {
    case .unsupported where here != nil:
      // The record to upload could not be read on this machine. The engine may still work.
      breaker.leave(ticket)
      environment.logger.warning("\(failure)")
    case .damaged, .unsupported:
      // The engine has answered this kind of request in time.
      noteSuccess(breaker)
      environment.logger.warning("\(failure)")
    case .forbidden:
      noteSuccess(breaker)
      let isFirst = loggedForbidden.withLock { $0.insert(kind).inserted }
      environment.logger.log(level: isFirst ? .error : .debug, "\(failure)")
      isReported = isFirst || kind != .load
    default:
      if breaker.fail(failure.kind, ticket) {
        environment.logger.log(
          level: failure.kind == .refused ? .error : .warning, "\(failure); it is left alone for a while")
      }
    }
    if isReported { environment.tell(CacheEvent(.remoteFailed(failure), key)) }
    return failure
  }

  func didDrop(_ key: BlobKey, isRemoval: Bool) {
    counts.change { counts in
      if isRemoval { counts.droppedRemovals += 1 } else { counts.droppedUploads += 1 }
    }
    environment.tell(CacheEvent(.remoteChangeDropped, key))
  }
}
