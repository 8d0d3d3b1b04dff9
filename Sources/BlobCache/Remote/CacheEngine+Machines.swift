internal import BlobRecord
internal import BlobStore
internal import Logging

// What the machines that share a remote tier know of each other.
extension CacheEngine {
  // MARK: - Revalidation

  /// Asks the engine whether a blob that lies here is still the one to answer, if its last word is too old.
  ///
  /// Of tasks that ask for a key at once, one asks the engine.
  ///
  /// - Parameter intoFile: whether another blob goes to the directory alone, and does not lie in memory.
  /// - Returns: another blob, which may not have found a place here; nil where a look here answers.
  /// - Throws: `CancellationError` if the task is cancelled; `recursiveProduction`.
  func revalidate(_ key: BlobKey, intoFile: Bool = false) async throws -> Blob? {
    guard let remote, remote.wantsWord(of: key), !isStaged(key) else { return nil }
    let answer = try await productions.answer(to: Production.Name(key: key, kind: .confirm)) { production in
      // Before the look: what is stored meanwhile stays.
      let history = try await self.condition(of: production)
      // What is not here, the load asks for.
      guard let own = try await self.ownHeader(of: key), remote.takes(own), !remote.isPending(key),
        let other = try await remote.header(of: key)
      else { throw AbsentRemotely() }
      if own.hasPayload(of: other) {
        remote.didConfirm(key)
      } else if intoFile {
        _ = try await self.fetchFile(key, from: remote, if: history)
      } else if let blob = try await self.fetch(key, from: remote, if: history) {
        return blob
      }
      throw AbsentRemotely()
    }
    switch answer.result {
    case .success(let blob): return blob
    case .failure(is AbsentRemotely): return nil
    case .failure(let error):
      // The load answers what lies here, and meets the error itself if it concerns it.
      store.configuration.logger.debug("\(key): not confirmed: \(error)")
      return nil
    }
  }

  /// As `revalidate(_:)`; another blob is told as a hit.
  ///
  /// - Parameter isAcceptable: whether another blob will do; nil is answered for one that does not.
  func newer(_ key: BlobKey, isAcceptable: (Blob) -> Bool = { _ in true }) async throws -> Blob? {
    let stopwatch = observer.stopwatch()
    guard let blob = try await revalidate(key), isAcceptable(blob) else { return nil }
    observer.tell(LookupResult(blob: blob, tier: .remote, duration: stopwatch.elapsed).event(for: key))
    return blob
  }

  private func ownHeader(of key: BlobKey) async throws -> RecordHeader? {
    if case .known(let header) = headerWithoutWaiting(for: key) { return header }
    return try await lanes.reads.run { _ in try self.store.header(for: key) }
  }

  /// The blob that another machine has stored since the one here, which is missing or due to be produced anew.
  ///
  /// The engine is asked also if it had nothing a short while ago.
  ///
  /// - Returns: nil if none has, or if the engine does not say.
  func newerBlob(_ key: BlobKey, in production: Production) async throws -> Blob? {
    guard let remote, remote.tier.mode.reads, !remote.isPending(key) else { return nil }
    let history = try await condition(of: production)
    let own = try await ownHeader(of: key)
    guard !remote.isPending(key), let other = try await remote.header(of: key),
      own.map({ other.lastUpdate > $0.lastUpdate }) ?? true
    else { return nil }
    return try await fetch(key, from: remote, if: history)
  }

  // MARK: - Announcements

  /// Another machine has changed a key: what lies here of it goes, unless it is the same, or is locked.
  func take(_ announcement: Announcement) async {
    let (key, checksum) = (announcement.key, announcement.checksum)
    // What is being fetched may be what was there before.
    productions.changing(key) {}
    do {
      _ = try await productions.answer(to: Production.Name(key: key, kind: .drop)) { production in
        // A store that begins after this, or is under way, is younger.
        let history = try await self.condition(of: production)
        guard self.remote?.isPending(key) == false else { throw AbsentRemotely() }
        let isOutdated = history.and(onRecord: { header in
          guard let header, header.refCount == 0 else { return false }
          return checksum == nil || header.payloadChecksum != checksum
        })
        try await self.lanes.removals.run { queueTime in
          _ = try self.remove(key, if: isOutdated, queueTime: queueTime, isOfRemote: false)
        }
        throw AbsentRemotely()
      }
    } catch {
      // The copy stays until its end, as after an announcement that is lost.
      store.configuration.logger.debug("\(key): not dropped: \(error)")
    }
  }

  // MARK: - Leases

  /// Produces a blob while no other machine does, unless one of them has it by then.
  ///
  /// - Parameter isDone: whether a blob of another machine will do.
  func inTurnOfMachines(
    _ key: BlobKey, in production: Production, isDone: @Sendable (Blob) -> Bool,
    orProduce produce: () async throws -> Blob
  ) async throws -> Blob {
    guard let remote, let leases = remote.leases else { return try await produce() }
    func found() async throws -> Blob? {
      guard let blob = try await newerBlob(key, in: production), isDone(blob) else { return nil }
      return blob
    }
    let deadline = ContinuousClock.now + leases.waits
    var pause: Duration = .milliseconds(20)
    while true {
      switch try await remote.acquireLease(of: key) {
      case .granted:
        do {
          // Another may have had the lease until just now.
          if let blob = try await found() {
            remote.releaseLease(of: key)
            return blob
          }
          let blob = try await produce()
          // Those who wait find it there. The caller does not wait for that.
          Task {
            await self.reachEngine(key)
            remote.releaseLease(of: key)
          }
          return blob
        } catch {
          remote.releaseLease(of: key)
          throw error
        }
      case .unknown: return try await produce()
      case .taken:
        guard ContinuousClock.now < deadline else { return try await produce() }
        try await Task.sleep(for: pause * remote.tier.jitter())
        pause = min(pause * 2, .seconds(1))
        if let blob = try await found() { return blob }
      }
    }
  }

  // MARK: - Waits

  /// Waits for the engine after a store, if stores are written through.
  func wasStored(_ key: BlobKey) async {
    if remote?.writesThrough == true { await reachEngine(key) }
  }

  /// Returns when the latest blob of a key is at the engine, or has failed to get there.
  private func reachEngine(_ key: BlobKey) async {
    guard let remote else { return }
    if isStaged(key) {
      // The error of a lane without a thread, or of a closed cache, is harmless: the staged blob is written later all the
      // same, and the engine gets it then.
      try? await lanes.writes.run { _ in self.writeStaged(key) }
    }
    await remote.ended(key)
  }
}

extension RecordHeader {
  /// Whether two records have one payload, as far as their headers tell.
  fileprivate func hasPayload(of other: RecordHeader) -> Bool {
    guard payloadSize == other.payloadSize else { return false }
    return payloadChecksum.map { $0 == other.payloadChecksum } ?? (lastUpdate == other.lastUpdate)
  }
}
