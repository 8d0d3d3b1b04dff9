public import BlobRecord
public import BlobStore

extension BlobCache {
  /// What the cache has to do with its remote tier; nil without one.
  public var remoteStatus: RemoteStatus? { engine.remote?.status }

  /// Removes a key's record here and in the remote tier, and says what has become of it there.
  ///
  /// `remove` does the same, and does not wait for the engine. A removal that the engine did not take is tried again until
  /// it does, or the cache is closed. Other machines keep the copies in their directories.
  ///
  /// - Returns: whether it was removed here, and there: nil without a tier that is written to.
  /// - Throws: as `remove`.
  public func removeEverywhere(_ key: BlobKey) async throws -> (here: BlobStore.Outcome, there: RemoteOutcome?) {
    let engine = try openEngine()
    let outcome = try await engine.lanes.removals.run { try engine.remove(key, queueTime: $0) }
    return (outcome, await remoteSettled(key))
  }

  /// Waits until the latest change of a key is at the remote tier, no longer than a change may take.
  ///
  /// - Returns: what has become of it; nil without a tier that is written to.
  package func remoteSettled(_ key: BlobKey) async -> RemoteOutcome? {
    guard let remote = engine.remote, remote.tier.mode.writes else { return nil }
    return await remote.settled(key)
  }

  /// Removes the records whose keys begin with a prefix, here and in the remote tier.
  ///
  /// The engine is asked for its names, a page at a time, so this takes as long as they are many. `remove(prefix:)` removes
  /// here alone. What the engine does not take is tried again, as after `removeEverywhere(_:)`.
  ///
  /// - Parameter prefix: what the keys begin with, byte for byte.
  /// - Returns: what was removed here, and there: nil without a tier that is written to.
  /// - Throws: as `remove(prefix:)`; `RemoteError`, `unsupported` where the engine cannot list, or its names do not tell keys.
  public func removeEverywhere(
    prefix: String
  ) async throws -> (here: BlobStore.RemovalReport, there: RemotePrefixRemoval?) {
    let report = try await remove(prefix: prefix)
    guard let remote = try openEngine().remote, remote.tier.mode.writes else { return (report, nil) }
    return (report, try await remote.remove(prefix: prefix))
  }
}

/// What became of the objects of many keys in a remote tier.
public struct RemotePrefixRemoval: Hashable, Sendable {
  public internal(set) var removed = 0
  /// Those that the engine has not taken yet, or that were dropped: events tell of these.
  public internal(set) var left = 0
  /// Objects whose names do not tell their keys, as those of very long keys. They stay.
  public internal(set) var unknown = 0
}
