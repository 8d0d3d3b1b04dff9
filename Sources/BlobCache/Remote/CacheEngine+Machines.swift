internal import BlobRecord
internal import BlobStore
internal import Logging

// Revalidation, announcements and leases between the machines that share a remote tier.
extension CacheEngine {
  // MARK: - Revalidation

  /// Asks the engine whether a blob in the directory is current, if its last confirmation is too old.
  ///
  /// - Parameter intoFile: A Boolean value that indicates whether a newer blob is stored only in the directory.
  /// - Returns: A different blob, which is possibly not stored here, or `nil` if the caller should use the directory.
  func revalidate(_ key: BlobKey, intoFile: Bool = false) async throws -> Blob? {
    guard let remote, remote.wantsWord(of: key), !isStaged(key) else { return nil }
    let answer = try await productions.answer(to: Production.Name(key: key, kind: .confirm)) { production in
      // The history is read before the lookup, so that concurrent stores are kept.
      let history = try await self.condition(of: production)
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
      // The load returns the blob in the directory, and reports the error itself if the error also affects it.
      store.configuration.logger.debug("\(key): not confirmed: \(error)")
      return nil
    }
  }

  /// Revalidates like `revalidate(_:)`, and reports an acceptable newer blob as a hit.
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

  /// Fetches a newer blob of another machine, even if the engine had no blob a short while ago.
  func newerBlob(_ key: BlobKey, in production: Production) async throws -> Blob? {
    guard let remote, remote.tier.mode.reads, !remote.isPending(key) else { return nil }
    let history = try await condition(of: production)
    let own = try await ownHeader(of: key)
    guard !remote.isPending(key), let other = try await remote.header(of: key),
      own.map({ remote.isNewer(other, than: $0) }) ?? true
    else { return nil }
    return try await fetch(key, from: remote, if: history)
  }

  // MARK: - Announcements

  /// Removes the record here after another machine has changed its key, unless the record is the same or is locked.
  func take(_ announcement: Announcement) async {
    let (key, checksum) = (announcement.key, announcement.checksum)
    // A fetch in progress may return the previous blob.
    productions.changing(key) {}
    do {
      _ = try await productions.answer(to: Production.Name(key: key, kind: .drop)) { production in
        // A store that is in progress or begins after this is newer.
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
      // The copy stays until it expires, as after a lost announcement.
      store.configuration.logger.debug("\(key): not dropped: \(error)")
    }
  }

  // MARK: - Leases

  /// Produces a blob, or returns a blob that another machine has just stored, if leases are enabled.
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
          if let blob = try await found() {
            remote.releaseLease(of: key)
            return blob
          }
          let blob = try await produce()
          // The lease is released once waiting machines can find the blob. The caller does not wait for that.
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

  func wasStored(_ key: BlobKey) async {
    if remote?.writesThrough == true { await reachEngine(key) }
  }

  private func reachEngine(_ key: BlobKey) async {
    guard let remote else { return }
    if isStaged(key) {
      // The error of a missing thread or a closed cache is harmless, because the staged blob is written later.
      try? await lanes.writes.run { _ in self.writeStaged(key) }
    }
    await remote.ended(key)
  }
}

extension RecordHeader {
  func hasPayload(of other: RecordHeader) -> Bool {
    guard payloadSize == other.payloadSize else { return false }
    return payloadChecksum.map { $0 == other.payloadChecksum } ?? (lastUpdate == other.lastUpdate)
  }
}
