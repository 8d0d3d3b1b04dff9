internal import BlobRecord
internal import BlobStore
internal import Locks
internal import Logging
internal import Synchronization

extension RemoteRequests {
  enum Lease: Sendable {
    case granted
    case taken
    /// The engine has failed, or is skipped.
    case unknown
  }

  func acquireLease(at place: RemotePlace, for time: Duration) async throws(CancellationError) -> Lease {
    guard let engine = tier.engine as? any RemoteLeasing else { return .unknown }
    do {
      let isGranted = try await help(with: place.key) { [sender] in
        try await engine.acquireLease(place.name, as: sender, for: time)
      }
      guard let isGranted else { return .unknown }
      return isGranted ? .granted : .taken
    } catch {
      // The lease may have been granted nevertheless.
      Task { await self.releaseLease(at: place) }
      throw error
    }
  }

  func releaseLease(at place: RemotePlace) async {
    guard let engine = tier.engine as? any RemoteLeasing else { return }
    // An error is ignored because the lease expires.
    _ = try? await help(with: place.key) { [sender] in try await engine.releaseLease(place.name, as: sender) }
  }

  /// Announces a change that the engine has accepted, without waiting.
  func announce(_ key: BlobKey, checksum: UInt32?) {
    guard tier.announcesChanges, let engine = tier.engine as? any RemoteAnnouncing else { return }
    let (text, channel) = (Announcement(sender: sender, key: key, checksum: checksum).text, tier.namespace.channel)
    // If this fails, the copies of other machines stay until they expire.
    Task { _ = try? await help(with: key) { try await engine.announce(text, on: channel) } }
  }

  func didFailToListen(_ error: any Error) { didFail(error, of: nil) }

  /// Sends an optional request that only saves work, or returns `nil` if its circuit breaker is open or it fails.
  private func help<Result: Sendable>(
    with key: BlobKey, _ body: @escaping @Sendable () async throws -> Result
  ) async throws(CancellationError) -> Result? {
    let breaker = breaker(for: .help)
    guard !isClosed.load(ordering: .relaxed), let ticket = breaker.admit() else { return nil }
    let time = tier.deadlines.change
    do {
      let result = try await deadline.run(first: time, progress: time, tier.engine.name) { _ in try await body() }
      counts.change { $0.requests += 1 }
      breaker.succeed()
      return result
    } catch {
      guard !Task.isCancelled else {
        breaker.leave(ticket)
        throw CancellationError()
      }
      switch RemoteError(anything: error, from: tier.engine.name).kind {
      case .forbidden: breaker.succeed()
      // The breaker treats a missing capability like a refusal, which has the longest pause.
      case .unsupported: breaker.fail(.refused, ticket)
      case let kind: breaker.fail(kind, ticket)
      }
      counts.change { $0.requests += 1 }
      didFail(error, of: key)
      return nil
    }
  }

  private func didFail(_ error: any Error, of key: BlobKey?) {
    let failure = RemoteError(anything: error, from: tier.engine.name)
    counts.change { $0.failures += 1 }
    environment.logger.debug("\(failure)")
    environment.tell(CacheEvent(.remoteFailed(failure), key))
  }
}
