internal import BlobRecord
internal import BlobStore
internal import Logging

extension CacheEngine {
  func loadRevalidated(_ key: BlobKey, touching: Bool) async throws -> Blob? {
    if let blob = try await newer(key) { return blob }
    if let blob = resident(key, touching: touching) { return blob }
    return try await loadWithRemote(key, touching: touching)
  }

  /// Loads a blob that is not in memory: from disk, or from the remote tier if the record is missing or damaged.
  func loadWithRemote(_ key: BlobKey, touching: Bool) async throws -> Blob? {
    guard let found = loadWithoutWaiting(key, touching: touching) else {
      return try await loadByLane(key, touching: touching)
    }
    await giveWay()
    return try await load(key, after: found)
  }

  func loadByLane(_ key: BlobKey, touching: Bool) async throws -> Blob? {
    var found = LookupResult()
    var damage: BlobStoreError?
    do {
      found = try await lanes.reads.run { try self.findMissing(key, touching: touching, queueTime: $0) }
    } catch let error as BlobStoreError where error.recordError?.mayBeReplaced ?? false {
      damage = error
    }
    return try await load(key, after: found, damage: damage)
  }

  /// Returns the blob of a lookup on disk or of the remote tier, or throws `damage` if both have no blob.
  func load(_ key: BlobKey, after lookup: LookupResult, damage: BlobStoreError? = nil) async throws -> Blob? {
    var found = lookup
    if found.blob == nil {
      let stopwatch = observer.stopwatch()
      if let blob = try await fetch(key) {
        found = LookupResult(blob: blob, tier: .remote, duration: stopwatch.elapsed)
      } else if let damage {
        throw damage
      }
    }
    observer.tell(found.event(for: key))
    return found.blob
  }

  func loadWithRemote(
    _ keys: [(index: Int, key: BlobKey)], touching: Bool
  ) async throws -> [(index: Int, result: LoadResult)] {
    try await withThrowingTaskGroup(of: (index: Int, result: LoadResult).self) { group in
      var results: [(index: Int, result: LoadResult)] = []
      for (count, (index, key)) in keys.enumerated() {
        // A typical client of an engine handles this many concurrent requests well.
        if count >= 32, let next = try await group.next() { results.append(next) }
        group.addTask {
          let result: Result<Blob?, any Error>
          do {
            result = .success(
              self.revalidates
                ? try await self.loadRevalidated(key, touching: touching)
                : try await self.loadWithRemote(key, touching: touching))
          } catch let error as BlobStoreError {
            result = .failure(error)
          }
          return (index, LoadResult(key: key, result: result))
        }
      }
      for try await next in group { results.append(next) }
      return results
    }
  }

  /// Fetches the blob of a missing key from the remote tier, and stores it here. Concurrent requests share one fetch.
  ///
  /// - Returns: The blob, or `nil` if the tier has no blob, fails, or is skipped.
  func fetch(_ key: BlobKey) async throws -> Blob? {
    guard let remote = remoteToAsk(for: key) else { return nil }
    // A blob that is being fetched into a file is loaded from that file.
    if try await hasWaited(for: .fetchFile, of: key), let blob = try await lookUp(key, touching: false).blob {
      return blob
    }
    let answer = try await productions.answer(to: Production.Name(key: key, kind: .fetch)) { production in
      let history = try await self.condition(of: production)
      // A blob that was stored since the lookup is newer than the engine's.
      let found =
        if let cached = self.loadWithoutWaiting(key, touching: false) { cached } else {
          try await self.lookUp(key, touching: false)
        }
      if let blob = found.blob { return blob }
      guard !remote.isPending(key),
        let blob = try await self.fetch(key, from: remote, if: history, answering: production)
      else {
        throw AbsentRemotely()
      }
      return blob
    }
    switch answer.result {
    case .success(let blob): return blob
    case .failure(is AbsentRemotely): return nil
    case .failure(let error):
      // The load continues without the tier, and reports the cause itself if the cause also affects it.
      store.configuration.logger.debug("\(key): not fetched: \(error)")
      return nil
    }
  }

  /// Returns the tier if a load should ask it for a key, or `nil`, for example while the circuit breaker is open.
  private func remoteToAsk(for key: BlobKey) -> RemoteAccess? {
    guard let remote, remote.mayHave(key) else { return nil }
    // Loads join the request that tries the engine, if it is for their key.
    guard remote.isCircuitOpen, !isBeing(.fetch, key), !isBeing(.fetchFile, key) else { return remote }
    remote.didPassOver()
    return nil
  }

  private func isBeing(_ kind: Production.Kind, _ key: BlobKey) -> Bool {
    productions.isUnderWay(Production.Name(key: key, kind: kind))
  }

  private func hasWaited(for kind: Production.Kind, of key: BlobKey) async throws -> Bool {
    let name = Production.Name(key: key, kind: kind)
    guard productions.isUnderWay(name) else { return false }
    // If the request has just ended, it is not repeated.
    _ = try await productions.answer(to: name, isPatient: true) { _ in throw AbsentRemotely() }
    return true
  }

  func placeFetched(_ key: BlobKey) async throws {
    guard remote?.tier.answersBeforeStoring == true else { return }
    _ = try await hasWaited(for: .fetch, of: key)
  }

  /// Fetches the blob of a key from the remote tier into the directory, piece by piece, if the tier has it.
  func fetchFile(_ key: BlobKey) async throws {
    guard let remote = remoteToAsk(for: key), try await !hasWaited(for: .fetch, of: key) else { return }
    let answer = try await productions.answer(to: Production.Name(key: key, kind: .fetchFile)) { production in
      let history = try await self.condition(of: production)
      // An error of an unreadable record is harmless: the fetched record replaces it, or the next reader reports it.
      let isHere = try await self.lanes.reads.run { _ in (try? self.store.header(for: key)) != nil }
      guard !isHere, !remote.isPending(key), let header = try await self.fetchFile(key, from: remote, if: history)
      else {
        throw AbsentRemotely()
      }
      return Blob(key: key, payload: Data(), header: header, extendedData: nil)
    }
    if case .failure(let error) = answer.result, !(error is AbsentRemotely) {
      store.configuration.logger.debug("\(key): not fetched: \(error)")
    }
  }

  /// Requests the header of the engine's object of a key that is missing here. Concurrent requests share one.
  func remoteHeader(of key: BlobKey) async throws -> RecordHeader? {
    guard let remote = remoteToAsk(for: key) else { return nil }
    let answer = try await productions.answer(to: Production.Name(key: key, kind: .fetchHeader)) { _ in
      guard let header = try await remote.liveHeader(of: key) else { throw AbsentRemotely() }
      return Blob(key: key, payload: Data(), header: header, extendedData: nil)
    }
    // The requests have reported the error of an engine. Here, a missing answer is a missing header.
    return try? answer.result.get().header
  }

  /// Fetches the engine's record of a key into the directory, piece by piece.
  ///
  /// - Parameter history: The key's history, read before the directory's record was judged to be missing or outdated.
  func fetchFile(
    _ key: BlobKey, from remote: RemoteAccess, if history: StoreCondition
  ) async throws -> RecordHeader? {
    do {
      let file = try await remote.file(of: key) { header in
        try await self.lanes.writes.run { _ in
          try self.openWriter(
            for: key, ttl: header.timeToLive, locks: .keep, expectedSize: Int64(clamping: header.payloadSize),
            visibility: .afterCommit)
        }
      }
      guard let file else { return nil }
      try await file.writer.commit(file, if: history)
      remote.didFetch(key, modified: file.modified)
      return file.header
    } catch is Superseded {
      store.configuration.logger.debug("\(key): fetched and not stored: it was stored or removed meanwhile")
      return nil
    } catch let error as BlobStoreError {
      store.configuration.logger.warning("a blob is fetched and not stored: \(error)")
      observer.tell(CacheEvent(.writeFailed(error), key))
      return nil
    }
  }

  /// Fetches the engine's blob of a key, and stores it here. A blob that cannot be stored is still returned.
  ///
  /// - Parameter production: The production that is answered before the store, if the tier is configured so.
  func fetch(
    _ key: BlobKey, from remote: RemoteAccess, if history: StoreCondition, answering production: Production? = nil
  ) async throws -> Blob? {
    guard let record = try await remote.record(of: key) else { return nil }
    var request = StoreRequest(
      payload: record.payload, ttl: record.header.timeToLive, locks: .keep, extendedData: record.extendedData)
    // The copy expires at the same time as the engine's record.
    request.updateTime = record.header.lastUpdate
    request.condition = history
    let byteCount = record.payload.count
    let isAnswered = production != nil && remote.mayAnswerBeforeStoring(byteCount)
    if let production, isAnswered { productions.answer(production, early: request.blob(key, record.header)) }
    defer { if isAnswered { remote.didStoreAnswered(byteCount) } }
    do {
      let blob = try await lanes.writes.run { [request] in try self.writeInTurn(request, for: key, queueTime: $0) }
      remote.didFetch(key, modified: record.modified)
      return blob
    } catch is Superseded {
      store.configuration.logger.debug("\(key): fetched and not stored: it was stored or removed meanwhile")
    } catch let error as BlobStoreError {
      store.configuration.logger.warning("a blob is fetched and not stored: \(error)")
      observer.tell(CacheEvent(.writeFailed(error), key, byteCount: record.payload.count))
    }
    return request.blob(key, record.header)
  }
}

extension RecordHeader {
  fileprivate var timeToLive: Duration? { ttl == 0 ? nil : .seconds(Int64(clamping: ttl)) }
}
