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
  /// - Throws: `CancellationError` if the task is cancelled; `recursiveProduction`.
  func revalidate(_ key: BlobKey) async throws {
    guard let remote, remote.wantsWord(of: key) else { return }
    let answer = try await productions.answer(to: Production.Name(key: key, kind: .confirm)) { production in
      // What is not here, the load asks for.
      guard let own = try await self.ownHeader(of: key) else { throw AbsentRemotely() }
      guard let other = try await remote.header(of: key) else { throw AbsentRemotely() }
      if !own.hasPayload(of: other) { _ = try await self.fetch(key, from: remote, in: production) }
      remote.didConfirm(key)
      throw AbsentRemotely()
    }
    if case .failure(let error) = answer.result, !(error is AbsentRemotely) {
      // The load answers what lies here, and meets the error itself if it concerns it.
      store.configuration.logger.debug("\(key): not confirmed: \(error)")
    }
  }

  private func ownHeader(of key: BlobKey) async throws -> RecordHeader? {
    if let staged = staging?.blob(for: key) { return staged.header }
    if case .known(let header) = headerIfCached(for: key) { return header }
    return try await lanes.reads.run { _ in try self.header(for: key) }
  }

  /// The blob that another machine has stored since the one here, which is due to be produced anew.
  ///
  /// - Returns: nil if none has, or if the engine does not say.
  func newerBlob(_ key: BlobKey, than own: Blob, in production: Production) async throws -> Blob? {
    guard let remote, remote.mayHave(key), let other = try await remote.header(of: key),
      other.lastUpdate > own.header.lastUpdate
    else { return nil }
    return try await fetch(key, from: remote, in: production)
  }

  // MARK: - Announcements

  /// Another machine has changed a key: what lies here of it goes, unless it is the same, or is locked.
  func take(_ announcement: Announcement) async {
    let (key, checksum) = (announcement.key, announcement.checksum)
    do {
      try await lanes.removals.run { queueTime in
        // What is stored here and not there yet is younger.
        guard self.staging?.blob(for: key) == nil, self.remote?.isPending(key) == false else { return }
        let isOutdated = StoreCondition { header in
          guard let header, header.refCount == 0 else { return false }
          return checksum == nil || header.payloadChecksum != checksum
        }
        _ = try self.remove(key, if: isOutdated, queueTime: queueTime, isOfRemote: false)
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
      guard let blob = try await fetch(key, from: remote, in: production), isDone(blob) else { return nil }
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
          // Those who wait find it there.
          _ = await remote.settled(key)
          remote.releaseLease(of: key)
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
}

extension RecordHeader {
  /// Whether two records have one payload, as far as their headers tell.
  fileprivate func hasPayload(of other: RecordHeader) -> Bool {
    guard payloadSize == other.payloadSize else { return false }
    return payloadChecksum.map { $0 == other.payloadChecksum } ?? (lastUpdate == other.lastUpdate)
  }
}
