internal import BlobRecord
internal import BlobStore
internal import Logging

extension CacheEngine {
  /// The blob of a key, after the engine's word about it.
  func loadRevalidated(_ key: BlobKey, touching: Bool) async throws -> Blob? {
    if let blob = try await newer(key) { return blob }
    if let blob = resident(key, touching: touching) { return blob }
    return try await loadWithRemote(key, touching: touching)
  }

  /// The blob of a key that memory does not have: from disk, else from the remote tier, also in place of a damaged record.
  func loadWithRemote(_ key: BlobKey, touching: Bool) async throws -> Blob? {
    guard let found = loadWithoutWaiting(key, touching: touching) else {
      return try await loadByLane(key, touching: touching)
    }
    await giveWay()
    return try await load(key, after: found)
  }

  /// As `loadWithRemote`, where a look on disk may wait.
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

  /// The blob that a look on disk has found, else that of the remote tier.
  ///
  /// - Parameter damage: what is thrown if the tier has none.
  func load(_ key: BlobKey, after look: LookupResult, damage: BlobStoreError? = nil) async throws -> Blob? {
    var found = look
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

  /// The blobs of many keys that memory does not have, in any order.
  func loadWithRemote(
    _ keys: [(index: Int, key: BlobKey)], touching: Bool
  ) async throws -> [(index: Int, result: LoadResult)] {
    try await withThrowingTaskGroup(of: (index: Int, result: LoadResult).self) { group in
      var results: [(index: Int, result: LoadResult)] = []
      for (count, (index, key)) in keys.enumerated() {
        // As many requests as an engine's client takes well.
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

  /// The blob that the remote tier has of a key which is not here; it is stored here.
  ///
  /// All that ask for the key wait for one request.
  ///
  /// - Returns: nil if the tier has none, or fails, or is left alone.
  /// - Throws: `CancellationError` if the task is cancelled; `recursiveProduction`.
  func fetch(_ key: BlobKey) async throws -> Blob? {
    guard let remote = remoteToAsk(for: key) else { return nil }
    // What comes into a file is loaded from there.
    if try await hasWaited(for: .fetchFile, of: key), let blob = try await lookUp(key, touching: false).blob {
      return blob
    }
    let answer = try await productions.answer(to: Production.Name(key: key, kind: .fetch)) { production in
      let history = try await self.condition(of: production)
      // What was stored since the look that found nothing is younger than what is there.
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
      // The load goes on as without the tier, and meets the cause again if it concerns it.
      store.configuration.logger.debug("\(key): not fetched: \(error)")
      return nil
    }
  }

  /// The tier, if a load asks it for a key; nil also while the engine is left alone.
  private func remoteToAsk(for key: BlobKey) -> RemoteAccess? {
    guard let remote, remote.mayHave(key) else { return nil }
    // Others wait for the request that tries the engine, if it is about their key.
    guard remote.isCircuitOpen, !isBeing(.fetch, key), !isBeing(.fetchFile, key) else { return remote }
    remote.didPassOver()
    return nil
  }

  private func isBeing(_ kind: Production.Kind, _ key: BlobKey) -> Bool {
    productions.isUnderWay(Production.Name(key: key, kind: kind))
  }

  /// Waits for a request that others have begun, if there is one.
  private func hasWaited(for kind: Production.Kind, of key: BlobKey) async throws -> Bool {
    let name = Production.Name(key: key, kind: kind)
    guard productions.isUnderWay(name) else { return false }
    // One that has just ended is not begun again.
    _ = try await productions.answer(to: name, isPatient: true) { _ in throw AbsentRemotely() }
    return true
  }

  /// Waits until what a load has answered has its place in the directory.
  ///
  /// - Throws: `CancellationError` if the task is cancelled; `recursiveProduction`.
  func placeFetched(_ key: BlobKey) async throws {
    guard remote?.tier.answersBeforeStoring == true else { return }
    _ = try await hasWaited(for: .fetch, of: key)
  }

  /// Brings the blob that the remote tier has of a key into the directory, piece by piece, if the tier has one.
  ///
  /// - Throws: as `fetch`.
  func fetchFile(_ key: BlobKey) async throws {
    guard let remote = remoteToAsk(for: key), try await !hasWaited(for: .fetch, of: key) else { return }
    let answer = try await productions.answer(to: Production.Name(key: key, kind: .fetchFile)) { production in
      let history = try await self.condition(of: production)
      // The error of a record that cannot be read is harmless: what comes takes its place, or the reader that is opened next
      // reports it.
      let isHere = try await self.lanes.reads.run { _ in (try? self.store.header(for: key)) != nil }
      guard !isHere, !remote.isPending(key), let header = try await self.fetchFile(key, from: remote, if: history)
      else {
        throw AbsentRemotely()
      }
      // It is opened from its file.
      return Blob(key: key, payload: Data(), header: header, extendedData: nil)
    }
    if case .failure(let error) = answer.result, !(error is AbsentRemotely) {
      store.configuration.logger.debug("\(key): not fetched: \(error)")
    }
  }

  /// Brings what the engine has of a key into the directory, piece by piece.
  ///
  /// - Parameter history: the key's, before it was known that what lies here will not do.
  /// - Returns: the header of the record that was stored here; nil for nothing.
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

  /// The blob that the engine has of a key; it is stored here.
  ///
  /// - Parameters:
  ///   - history: as for `fetchFile`.
  ///   - production: is answered before the store, where the tier says so.
  /// - Returns: nil for nothing; a blob also if it cannot be kept.
  func fetch(
    _ key: BlobKey, from remote: RemoteAccess, if history: StoreCondition, answering production: Production? = nil
  ) async throws -> Blob? {
    guard let record = try await remote.record(of: key) else { return nil }
    var request = StoreRequest(
      payload: record.payload, ttl: record.header.timeToLive, locks: .keep, extendedData: record.extendedData)
    // It expires here when it does there.
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
    // What cannot be kept here is answered all the same.
    return request.blob(key, record.header)
  }
}

extension RecordHeader {
  /// The time to live that a store is told; nil for none of its own.
  fileprivate var timeToLive: Duration? { ttl == 0 ? nil : .seconds(Int64(clamping: ttl)) }
}
