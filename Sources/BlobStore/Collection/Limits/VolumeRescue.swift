internal import Locks
internal import Logging
internal import Synchronization

/// Collections that make room on a full volume for all waiting stores. A collection that frees nothing starts a
/// cooldown.
final class VolumeRescue: Sendable {
  private static let cooldown: Duration = .seconds(60)

  private let core: StoreCore
  private let endOfCooldown = Lock<ContinuousClock.Instant?>(nil)
  private let made = Atomic(0)

  init(_ core: StoreCore) { self.core = core }

  /// The number of collections that have made room. A store that failed before the last one can be retried.
  var collections: Int { made.load(ordering: .acquiring) }

  private var isCoolingDown: Bool { endOfCooldown.withLock { $0.map { ContinuousClock.now < $0 } ?? false } }

  /// Makes room by a collection, unless one has ended since the failed attempt read `collections`. Returns a Boolean
  /// value that indicates whether there is more room now.
  func makeRoom(
    for byteCount: Int64, after collections: Int, isSpared: @escaping (UInt64) -> Bool,
    isStopped: @escaping @Sendable () -> Bool
  ) -> Bool {
    func isMade() -> Bool { self.collections != collections }
    if isMade() { return true }
    guard !isCoolingDown, !isStopped() else { return false }
    var options = BlobStore.CollectionOptions()
    options.waitsForOther = core.configuration.access.lockTimeout
    options.isStopped = isStopped
    // Recycled files take room.
    options.emptiesBin = true
    var hasFreed = false
    do {
      let run = LimitRun(core: core, options: options, isSpared: isSpared)
      guard let report = try run.makeRoom(for: byteCount, unless: isMade) else { return true }
      hasFreed = report.hasFreedRoom
    } catch {
      // The store has failed because the volume is full, and reports that.
      core.configuration.logger.warning("\(BlobStoreError(error, operation: "collect", key: nil))")
      // A collection of another process may still make room, so no cooldown starts.
      if (error as? BlobStoreError)?.code == .collectionRunning { return false }
    }
    endOfCooldown.withLock { $0 = hasFreed ? nil : .now + Self.cooldown }
    if hasFreed { made.add(1, ordering: .releasing) }
    return hasFreed
  }
}

extension BlobStore.CollectionReport {
  fileprivate var hasFreedRoom: Bool { expired + evicted + damaged + temporary + recycled > 0 }
}
