public import BlobRecord
public import BlobStore
internal import Logging

#if canImport(FoundationEssentials)
  public import FoundationEssentials
#else
  public import Foundation
#endif

extension BlobCache {
  /// The blob stored under a key or, if there is none that is live, what `produce` makes, which is stored.
  ///
  /// However many tasks ask for a key, one producer runs for it; the others wait for what it makes. A task that is
  /// cancelled stops waiting, and the producer is cancelled when nobody waits any more. A damaged record is produced
  /// anew. What `produce` throws goes to all who wait, and nothing is stored.
  ///
  /// The producer runs in a task of its own, with the priority and the task-local values of the first who asked. It must
  /// not ask for its own key.
  ///
  /// - Throws: what `produce` throws; `recursiveProduction`; as `load` and `store`; `CancellationError`.
  public func load(
    _ key: BlobKey, options: ProductionOptions = ProductionOptions(),
    orStore produce: @escaping @Sendable () async throws -> Data
  ) async throws -> Blob {
    try await load(key, options: options, accepting: { _ in true }, orStore: produce)
  }

  /// - Parameter isAcceptable: whether a blob will do; one that will not is as good as missing.
  func load(
    _ key: BlobKey, options: ProductionOptions, accepting isAcceptable: @escaping @Sendable (Blob) -> Bool,
    orStore produce: @escaping @Sendable () async throws -> Data
  ) async throws -> Blob {
    let engine = try openEngine()
    if let blob = engine.resident(key, touching: true), isAcceptable(blob) {
      engine.refreshIfAged(blob, options, produce)
      return blob
    }
    guard !ProductionChain.keys.contains(key) else {
      throw BlobCacheError(.recursiveProduction, "the producer asks for the key that it is producing", key: key)
    }
    return try await engine.flights.blob(for: key) {
      try await ProductionChain.$keys.withValue(ProductionChain.keys.union([key])) {
        try await engine.find(key, options, isAcceptable, orStore: produce)
      }
    }
  }
}

/// The keys that the current task produces, those who asked for it included.
private enum ProductionChain {
  @TaskLocal static var keys: Set<BlobKey> = []
}

extension CacheEngine {
  typealias PayloadProducer = @Sendable () async throws -> Data

  /// The one flight of a key: looks on disk, and produces.
  fileprivate func find(
    _ key: BlobKey, _ options: ProductionOptions, _ isAcceptable: @escaping @Sendable (Blob) -> Bool,
    orStore produce: @escaping PayloadProducer
  ) async throws -> Blob {
    if let blob = try await loadSound(key), isAcceptable(blob) {
      refreshIfAged(blob, options, produce)
      return blob
    }
    if let failure = failures.failure(of: key) { throw failure }
    guard options.acrossProcesses else { return try await self.produce(key, options, produce) }
    return try await produceAlone(key, options, isDone: isAcceptable, produce)
  }

  /// - Returns: nil also for a damaged record, unless it may be another version's.
  private func loadSound(_ key: BlobKey) async throws -> Blob? {
    do {
      return try await lanes.reads.run { try self.load(key, touching: true, queueTime: $0) }
    } catch let error as BlobStoreError where error.recordError?.mayBeReplaced ?? false {
      return nil
    }
  }

  private func produce(
    _ key: BlobKey, _ options: ProductionOptions, _ produce: @escaping PayloadProducer
  ) async throws -> Blob {
    let stopwatch = observer.stopwatch()
    let payload: Data
    do {
      payload = try await withSpan("produce", key, produce)
    } catch {
      if let time = options.remembersFailuresFor, !(error is CancellationError), !Task.isCancelled {
        failures.note(error, of: key, seconds: time.wholeSeconds)
      }
      throw error
    }
    // Nobody waits for it any more, and what a cancelled producer returns may be half of it.
    try Task.checkCancellation()
    observer.tell(CacheEvent(.produced, key, byteCount: payload.count, duration: stopwatch.elapsed))
    let request = StoreRequest(payload: payload, ttl: options.ttl, locked: options.locked)
    return try await lanes.writes.run { queueTime in
      if try self.stage(request, for: key), let blob = self.staging?.blob(for: key) { return blob }
      return try self.writeInTurn(request, for: key, queueTime: queueTime)
    }
  }

  /// Produces while no other process does.
  ///
  /// - Parameter isDone: whether a blob that another has stored meanwhile will do.
  private func produceAlone(
    _ key: BlobKey, _ options: ProductionOptions, isDone: @escaping @Sendable (Blob) -> Bool,
    _ produce: @escaping PayloadProducer
  ) async throws -> Blob {
    let deadline = ContinuousClock.now + options.waitsForOthers
    var pause: Duration = .milliseconds(2)
    while true {
      let release = try await lanes.writes.run { _ in try self.store.tryProductionLock(of: key) }
      if let release {
        defer { release() }
        // Another may have had the lock until just now.
        if let blob = try await loadSound(key), isDone(blob) { return blob }
        return try await self.produce(key, options, produce)
      }
      guard ContinuousClock.now < deadline else { return try await self.produce(key, options, produce) }
      try await Task.sleep(for: pause)
      pause = min(pause * 2, .milliseconds(100))
      if let blob = try await loadSound(key), isDone(blob) { return blob }
    }
  }

  /// Has a blob that is live but old produced anew, without anybody waiting for it.
  fileprivate func refreshIfAged(_ blob: Blob, _ options: ProductionOptions, _ produce: @escaping PayloadProducer) {
    guard let age = options.refreshesAfter?.wholeSeconds, blob.header.ttl > 0 else { return }
    let isYoung = { @Sendable [now = store.configuration.now] (blob: Blob) in
      now() < blob.header.lastUpdate.advanced(bySeconds: age)
    }
    let key = blob.key
    guard !isYoung(blob), failures.failure(of: key) == nil else { return }
    flights.refresh(key) {
      do {
        if let blob = try await self.loadSound(key), isYoung(blob) { return blob }
        guard options.acrossProcesses else { return try await self.produce(key, options, produce) }
        return try await self.produceAlone(key, options, isDone: isYoung, produce)
      } catch {
        // Who asked has had an answer. What was stored stays, and the next who asks tries again.
        self.store.configuration.logger.debug("not refreshed: \(key): \(error)")
        throw error
      }
    }
  }
}

extension RecordError {
  /// Whether nothing is lost when a store replaces the damaged record: not what a later version may have written.
  fileprivate var mayBeReplaced: Bool {
    switch self {
    case .notEnoughDataToGetHeader, .magicMismatch, .invalidHeaderCRC, .wrongPayloadSize, .payloadChecksumMismatch: true
    default: false
    }
  }
}

extension Duration {
  /// Whole seconds, rounded up, held between 0 and 2^62.
  fileprivate var wholeSeconds: Int64 {
    guard self < .seconds(1 << 62) else { return 1 << 62 }
    let (seconds, attoseconds) = max(self, .zero).components
    return attoseconds > 0 ? seconds + 1 : seconds
  }
}
