public import BlobRecord
public import BlobStore

extension BlobCache {
  /// The status of the cache's remote tier, or `nil` for a cache without a tier.
  public var remoteStatus: RemoteStatus? { engine.remote?.status }

  /// Removes a key's record here and in the remote tier, and waits for the engine.
  ///
  /// `remove` also removes both records, but does not wait for the engine. A removal that fails in the engine is
  /// retried until it succeeds or is refused, or the cache is closed. Other machines keep their copies.
  ///
  /// - Returns: The outcome here, and the outcome in the tier, or `nil` without a writable tier.
  /// - Throws: The errors of `remove`.
  public func removeEverywhere(_ key: BlobKey) async throws -> (here: BlobStore.Outcome, there: RemoteOutcome?) {
    let engine = try openEngine()
    let outcome = try await engine.lanes.removals.run { try engine.remove(key, queueTime: $0) }
    return (outcome, await remoteSettled(key))
  }

  /// Waits for the latest change of a key, at most for its timeout, or returns `nil` without a writable tier.
  package func remoteSettled(_ key: BlobKey) async -> RemoteOutcome? {
    guard let remote = engine.remote, remote.tier.mode.writes else { return nil }
    return await remote.settled(key)
  }

  /// Returns the header of the live object of a key in the remote tier, without its payload.
  ///
  /// Nothing is stored here. The payload is not checked, and neither is a seal.
  ///
  /// - Returns: The header, or `nil` without a readable tier, without a live object, or if the engine fails.
  /// - Throws: `CancellationError`; `closed`.
  package func remoteHeader(for key: BlobKey) async throws -> RecordHeader? {
    try await openEngine().remoteHeader(of: key)
  }

  /// Removes the records whose keys have a prefix, here and in the remote tier.
  ///
  /// The engine lists its names page by page, so the time depends on their number. `remove(prefix:)` removes only
  /// records in the directory. Failed removals are retried as after `removeEverywhere(_:)`.
  ///
  /// - Parameter prefix: The prefix of the keys, which is compared byte for byte.
  /// - Returns: The result here, and the result in the tier, or `nil` without a writable tier.
  /// - Throws: The errors of `remove(prefix:)`; `RemoteError` with the kind `unsupported` if the engine cannot list, or
  ///   names do not contain keys.
  public func removeEverywhere(
    prefix: String
  ) async throws -> (here: BlobStore.RemovalReport, there: RemotePrefixRemoval?) {
    let report = try await remove(prefix: prefix)
    guard let remote = try openEngine().remote, remote.tier.mode.writes else { return (report, nil) }
    return (report, try await remote.remove(prefix: prefix))
  }
}

/// The result of removing the objects of many keys in a remote tier.
public struct RemotePrefixRemoval: Hashable, Sendable {
  public internal(set) var removed = 0
  /// The number of objects whose removal is postponed or was dropped; events report dropped ones.
  public internal(set) var left = 0
  /// The number of objects that stay because their names do not contain their keys, such as very long keys.
  public internal(set) var unknown = 0
}
