internal import Locks
internal import Logging
internal import Synchronization

/// Makes room by collections on a volume that stores have found full. One collection serves all stores that wait. After
/// one that has freed nothing, a minute passes before the next.
final class VolumeRescue: Sendable {
  /// How long nothing is tried again after a collection that has freed nothing.
  private static let cooldown: Duration = .seconds(60)

  private let core: StoreCore
  private let endOfCooldown = Lock<ContinuousClock.Instant?>(nil)
  private let made = Atomic(0)

  init(_ core: StoreCore) { self.core = core }

  /// Collections that have made room: what was tried before the latest of them is worth another try.
  var collections: Int { made.load(ordering: .acquiring) }

  private var isCoolingDown: Bool { endOfCooldown.withLock { $0.map { ContinuousClock.now < $0 } ?? false } }

  /// - Parameters:
  ///   - byteCount: of the file that finds no room, as far as it is known.
  ///   - collections: those that had been made when it was tried.
  ///   - isSpared: tells of records that are not to be evicted, by their digests.
  ///   - isStopped: whether to end with the file in hand.
  /// - Returns: whether there is room that was not there.
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
    // Recycled files make no room.
    options.emptiesBin = true
    var hasFreed = false
    do {
      let run = LimitRun(core: core, options: options, isSpared: isSpared)
      guard let report = try run.makeRoom(for: byteCount, unless: isMade) else { return true }
      hasFreed = report.hasFreedRoom
    } catch {
      // The store has failed for want of room, and says so.
      core.configuration.logger.warning("\(BlobStoreError(error, operation: "collect", key: nil))")
      // Another process is at it: that was no collection in vain.
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
