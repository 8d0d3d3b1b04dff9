internal import BlobRecord
internal import BlobStore
internal import Logging

#if canImport(FoundationEssentials)
  internal import FoundationEssentials
#else
  internal import Foundation
#endif

extension CacheEngine {
  /// The one flight of a key: looks on disk, and produces.
  func find(_ request: ProductionRequest) async throws -> Blob {
    let key = request.key
    // Asked before the disk is: a refresh that has ended in between has stored what this look may have missed.
    let wasRefreshed = refreshes.isUnderWay(key)
    let found = try await loadSound(key)
    if let found, request.isAcceptable(found) {
      if isAged(found, request.options) { refresh(request) }
      return found
    }
    guard wasRefreshed || refreshes.isUnderWay(key) else {
      return try await produceMissing(request, found == nil ? .empty : .unacceptable)
    }
    let link = ProductionChain.Link(key, in: .refreshes, of: self)
    let landing = try await ProductionChain.waiting(for: link) {
      try await refreshes.blob(for: key) {
        try await ProductionChain.producing(link) {
          // It has just ended.
          let found = try await self.loadSound(key)
          if let found, request.isAcceptable(found) { return found }
          return try await self.produceMissing(request, found == nil ? .empty : .unacceptable)
        }
      }
    }
    if landing.isOwn || request.isAcceptable(landing.blob) { return landing.blob }
    return try await produceMissing(request, .unacceptable)
  }

  private func produceMissing(_ request: ProductionRequest, _ place: ProductionPlace) async throws -> Blob {
    if let failure = failures.failure(of: request.key) { throw failure }
    return try await produce(request, place, isDone: request.isAcceptable)
  }

  /// - Returns: nil also for a damaged record, unless it may be another version's.
  func loadSound(_ key: BlobKey) async throws -> Blob? {
    do {
      return try await lanes.reads.run { try self.loadMissing(key, touching: true, queueTime: $0) }
    } catch let error as BlobStoreError where error.recordError?.mayBeReplaced ?? false {
      return nil
    }
  }

  /// Produces and stores, as the options say: also while another process does, or not.
  ///
  /// - Parameter isDone: whether a blob that another process has stored meanwhile will do.
  func produce(
    _ request: ProductionRequest, _ place: ProductionPlace, isDone: @escaping @Sendable (Blob) -> Bool
  ) async throws -> Blob {
    guard request.options.acrossProcesses else { return try await produce(request, place) }
    return try await produceAlone(request, place, isDone: isDone)
  }

  private func produce(_ request: ProductionRequest, _ place: ProductionPlace) async throws -> Blob {
    let key = request.key
    let stopwatch = observer.stopwatch()
    let payload: Data
    do {
      payload = try await withSpan("produce", key, request.produce)
    } catch {
      if let time = request.options.remembersFailuresFor, !(error is CancellationError), !Task.isCancelled {
        failures.note(error, of: key, seconds: time.wholeSeconds)
      }
      throw error
    }
    // Nobody waits for it any more, and what a cancelled producer returns may be half of it.
    try Task.checkCancellation()
    observer.tell(CacheEvent(.produced, key, byteCount: payload.count, duration: stopwatch.elapsed))
    let store = place.storeRequest(payload, request.options)
    do {
      return try await lanes.writes.run { queueTime in
        try self.stage(store, for: key) ?? self.writeInTurn(store, for: key, queueTime: queueTime)
      }
    } catch let error as BlobStoreError where request.options.answersUnstored {
      return try unstored(store, for: key, error)
    }
  }

  /// What was produced and could not be stored.
  ///
  /// - Throws: `invalidTimeToLive`: such a blob was never meant to be stored.
  private func unstored(_ request: StoreRequest, for key: BlobKey, _ error: BlobStoreError) throws -> Blob {
    let header = try store.prospectiveHeader(byteCount: request.payload.count, ttl: request.ttl)
    store.configuration.logger.warning("a blob is produced and not stored: \(error)")
    observer.tell(CacheEvent(.writeFailed(error), key, byteCount: request.payload.count))
    return Blob(key: key, payload: request.payload, header: header)
  }

  /// Produces while no other process does.
  private func produceAlone(
    _ request: ProductionRequest, _ place: ProductionPlace, isDone: @escaping @Sendable (Blob) -> Bool
  ) async throws -> Blob {
    let key = request.key
    let deadline = ContinuousClock.now + request.options.waitsForOthers
    var pause: Duration = .milliseconds(2)
    var place = place
    func look() async throws -> Blob? {
      guard let blob = try await loadSound(key) else { return nil }
      if isDone(blob) { return blob }
      if place == .empty { place = .unacceptable }
      return nil
    }
    while true {
      let release = try await lanes.writes.run { _ in try self.store.tryProductionLock(of: key) }
      if let release {
        defer { release() }
        // Another may have had the lock until just now.
        if let blob = try await look() { return blob }
        return try await produce(request, place)
      }
      guard ContinuousClock.now < deadline else { return try await produce(request, place) }
      try await Task.sleep(for: pause)
      pause = min(pause * 2, .milliseconds(100))
      if let blob = try await look() { return blob }
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
  var wholeSeconds: Int64 {
    guard self < .seconds(1 << 62) else { return 1 << 62 }
    let (seconds, attoseconds) = max(self, .zero).components
    return attoseconds > 0 ? seconds + 1 : seconds
  }
}
