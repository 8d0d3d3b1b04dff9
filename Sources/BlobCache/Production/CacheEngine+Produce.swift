internal import BlobRecord
internal import BlobStore
internal import Logging

extension CacheEngine {
  /// Looks up a key on disk and produces a missing blob: the body of the key's only production.
  func find(
    _ request: ProductionRequest, in production: Production, _ tally: LoadTally, touching: Bool
  ) async throws -> Blob {
    let key = request.key
    let refreshing = Production.Name(key: key, kind: .refresh)
    // This is read before the disk, because a refresh that ends in between has stored a blob.
    let wasRefreshed = productions.isUnderWay(refreshing)
    var found = try await lookUp(key, touching: touching)
    if found.blob == nil, let blob = try await fetch(key) { found = LookupResult(blob: blob, tier: .remote) }
    let isFound = found.blob.map(request.isAcceptable) ?? false
    production.firstLookup = isFound ? .hit(found.tier) : .miss
    tally.tell(found, isAcceptable: isFound)
    if isFound, let blob = found.blob {
      if isAged(blob, request.options) { refresh(request) }
      return blob
    }
    guard wasRefreshed || productions.isUnderWay(refreshing) else {
      return try await produceMissing(request, found.blob == nil ? .empty : .unacceptable, in: production)
    }
    let answer = try await productions.answer(to: refreshing) { production in
      let found = try await self.lookUp(key, touching: false).blob
      if let found, request.isAcceptable(found) { return found }
      return try await self.produceMissing(request, found == nil ? .empty : .unacceptable, in: production)
    }
    let blob = try answer.result.get()
    if answer.isOwn || request.isAcceptable(blob) { return blob }
    return try await produceMissing(request, .unacceptable, in: production)
  }

  private func produceMissing(
    _ request: ProductionRequest, _ place: ProductionPlace, in production: Production
  ) async throws -> Blob {
    if let failure = failures.failure(of: request.key) { return try await staleBlob(for: request, after: failure) }
    return try await produce(request, place, in: production, isDone: request.isAcceptable)
  }

  /// Looks up a blob without reporting a hit or a miss. A damaged record counts as missing if it may be replaced.
  func lookUp(_ key: BlobKey, touching: Bool) async throws -> LookupResult {
    do {
      return try await lanes.reads.run { try self.findMissing(key, touching: touching, queueTime: $0) }
    } catch let error as BlobStoreError where error.recordError?.mayBeReplaced ?? false {
      return LookupResult()
    }
  }

  /// Produces and stores a blob, unless another process has just stored one for which `isDone` returns `true`.
  func produce(
    _ request: ProductionRequest, _ place: ProductionPlace, in production: Production,
    isDone: @escaping @Sendable (Blob) -> Bool
  ) async throws -> Blob {
    let stopwatch = observer.stopwatch()
    // The place is taken before the lock, so that other processes do not wait for this process's limit.
    return try await places.withPlace(for: production) {
      let queueTime = stopwatch.elapsed
      guard request.options.acrossProcesses else {
        return try await produceInTurnOfMachines(
          request, place, in: production, queueTime: queueTime, isDone: isDone)
      }
      return try await produceAlone(request, place, in: production, queueTime: queueTime, isDone: isDone)
    }
  }

  private func produce(
    _ request: ProductionRequest, _ place: ProductionPlace, in production: Production, queueTime: Duration
  ) async throws -> Blob {
    let key = request.key
    let condition = try await condition(of: production)
    let stopwatch = observer.stopwatch()
    let produced: Produced
    do {
      produced = try await withSpan("produce", key, request.produce)
    } catch {
      if let time = request.options.remembersFailuresFor, !(error is CancellationError), !Task.isCancelled,
        !production.isSuperseded
      {
        failures.note(error, of: key, for: time)
      }
      // A blob that is being refreshed is live, and was already returned.
      if place == .aged || error is CancellationError || Task.isCancelled { throw error }
      return try await staleBlob(for: request, after: error)
    }
    // The last caller may have left, and a cancelled producer may return a partial blob.
    try Task.checkCancellation()
    observer.tell(
      CacheEvent(
        .produced, key, byteCount: produced.payload.count, duration: stopwatch.elapsed, queueTime: queueTime))
    let store = place.storeRequest(produced, request.options, if: condition)
    guard produced.isStored else { return try unstored(store, for: key) }
    do {
      let blob = try await lanes.writes.run { queueTime in
        // With `acrossProcesses`, other processes wait for the production lock, and then look up the blob on disk.
        if !request.options.acrossProcesses, let staged = try self.stage(store, for: key) { return staged }
        return try self.writeInTurn(store, for: key, queueTime: queueTime)
      }
      await wasStored(key)
      return blob
    } catch is Superseded {
      self.store.configuration.logger.debug("\(key): produced and not stored: it was stored or removed meanwhile")
      return try unstored(store, for: key)
    } catch let error as BlobStoreError where request.options.answersUnstored {
      let blob = try unstored(store, for: key)
      self.store.configuration.logger.warning("a blob is produced and not stored: \(error)")
      observer.tell(CacheEvent(.writeFailed(error), key, byteCount: produced.payload.count))
      return blob
    }
  }

  /// Returns the condition under which a production that begins now is stored.
  func condition(of production: Production) async throws -> StoreCondition {
    let isWanted = { @Sendable in !production.isSuperseded }
    do {
      let key = production.name.key
      // The history is nearly always known without access to the disk.
      if !isStaged(key), let history = try store.history(of: key) {
        return StoreCondition(history: history, isWanted: isWanted)
      }
      let history = try await lanes.writes.run { _ in
        // The staged blob is older than the production, and must not count as a later change.
        self.writeStaged(key)
        return try self.store.firstHistory(of: key)
      }
      return StoreCondition(history: history, isWanted: isWanted)
    } catch let error as BlobStoreError {
      // The store of the produced blob will report the error.
      store.configuration.logger.debug("no generation: \(error)")
      return StoreCondition(history: KeyHistory(), isWanted: isWanted)
    }
  }

  /// Returns a produced blob that is not stored, or throws `invalidTimeToLive` as a store would.
  private func unstored(_ request: StoreRequest, for key: BlobKey) throws -> Blob {
    let header = try store.prospectiveHeader(
      for: key, request.payload.bytes, request.extendedData, ttl: request.ttl)
    return request.blob(key, header)
  }

  /// Returns a recent enough expired blob of a key if the options allow it, or throws the producer's error.
  private func staleBlob(for request: ProductionRequest, after failure: any Error) async throws -> Blob {
    guard let age = request.options.staleIfError?.wholeSeconds, age > 0 else { throw failure }
    let time = store.configuration.now().advanced(bySeconds: -age)
    let stale: Blob?
    do {
      stale = try await lanes.reads.run { _ in try self.store.load(request.key, liveAt: time) }
    } catch let error as BlobStoreError {
      store.configuration.logger.debug("no expired blob in place of a failed producer: \(error)")
      throw failure
    }
    guard let stale, request.isAcceptable(stale) else { throw failure }
    observer.tell(CacheEvent(.stale(failure), request.key, byteCount: stale.payload.count))
    return stale
  }

  private func produceAlone(
    _ request: ProductionRequest, _ place: ProductionPlace, in production: Production, queueTime: Duration,
    isDone: @escaping @Sendable (Blob) -> Bool
  ) async throws -> Blob {
    var place = place
    return try await inTurn(of: request.key, waitingAtMost: request.options.waitsForOthers) {
      guard let blob = try await lookUp(request.key, touching: false).blob else { return nil }
      if isDone(blob) { return blob }
      if place == .empty { place = .unacceptable }
      return nil
    } orProduce: {
      try await produceInTurnOfMachines(request, place, in: production, queueTime: queueTime, isDone: isDone)
    }
  }

  private func produceInTurnOfMachines(
    _ request: ProductionRequest, _ place: ProductionPlace, in production: Production, queueTime: Duration,
    isDone: @escaping @Sendable (Blob) -> Bool
  ) async throws -> Blob {
    try await inTurnOfMachines(request.key, in: production, isDone: isDone) {
      try await produce(request, place, in: production, queueTime: queueTime)
    }
  }

  /// Produces a result for a key while holding the production lock, unless another process has produced it.
  ///
  /// - Parameter patience: The time to wait for the lock before producing without it.
  func inTurn<Result>(
    of key: BlobKey, waitingAtMost patience: Duration, lookUpAgain: () async throws -> Result?,
    orProduce produce: () async throws -> Result
  ) async throws -> Result {
    let deadline = ContinuousClock.now + patience
    var pause: Duration = .milliseconds(2)
    while true {
      if let release = try await lanes.writes.run({ _ in try self.store.tryProductionLock(of: key) }) {
        defer { release() }
        // Another may have had the lock until just now.
        if let found = try await lookUpAgain() { return found }
        return try await produce()
      }
      guard ContinuousClock.now < deadline else { return try await produce() }
      try await Task.sleep(for: pause)
      pause = min(pause * 2, .milliseconds(100))
      if let found = try await lookUpAgain() { return found }
    }
  }
}

extension RecordError {
  /// A Boolean value that indicates whether a store may replace the record. One of a later format is kept.
  var mayBeReplaced: Bool {
    switch self {
    case .notEnoughDataToGetHeader, .magicMismatch, .invalidHeaderCRC, .wrongPayloadSize, .payloadChecksumMismatch,
      .writableByOthers, .abandonedStream:
      true
    default: false
    }
  }
}

extension Duration {
  /// The whole seconds, rounded up and clamped to 0...2^62.
  var wholeSeconds: Int64 {
    guard self < .seconds(1 << 62) else { return 1 << 62 }
    let (seconds, attoseconds) = max(self, .zero).components
    return attoseconds > 0 ? seconds + 1 : seconds
  }
}

extension CacheEngine {
  func isAged(_ blob: Blob, _ options: ProductionOptions) -> Bool {
    guard let age = options.refreshesAfter?.wholeSeconds, blob.header.ttl > 0 else { return false }
    let spread = (0...1).contains(options.refreshSpread) ? options.refreshSpread : 0
    let seconds = age - Int64(Double(age) * spread * refreshLot(of: blob.key))
    return store.configuration.now() >= blob.header.lastUpdate.advanced(bySeconds: seconds)
  }

  /// Returns a number from 0 to 1 for a key, which differs between caches, processes and machines.
  private func refreshLot(of key: BlobKey) -> Double {
    var hasher = Hasher()
    hasher.combine(refreshSeed)
    hasher.combine(key)
    return Double(UInt64(bitPattern: Int64(hasher.finalize())) >> 11) / Double(1 << 53)
  }

  /// Produces a live but old blob again in the background, unless a refresh is in progress.
  func refresh(_ request: ProductionRequest) {
    let key = request.key
    guard failures.failure(of: key) == nil else { return }
    let isDone = { @Sendable (blob: Blob) in !self.isAged(blob, request.options) && request.isAcceptable(blob) }
    productions.refresh(key) { production in
      do {
        if let blob = try await self.lookUp(key, touching: false).blob {
          if isDone(blob) { return blob }
          if let newer = try await self.newerBlob(key, in: production), isDone(newer) { return newer }
        }
        return try await self.produce(request, .aged, in: production, isDone: isDone)
      } catch {
        // The caller already has its blob. The stored blob stays, and the next call tries again.
        self.store.configuration.logger.debug("not refreshed: \(key): \(error)")
        throw error
      }
    }
  }
}
