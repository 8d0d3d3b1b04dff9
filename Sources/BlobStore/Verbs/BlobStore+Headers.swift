public import BlobRecord
internal import Logging
internal import Posix
internal import SystemPackage

extension BlobStore {
  /// Sets the update time of a record with ttl 0 to now, even if that is earlier.
  ///
  /// A record with another ttl does not change.
  ///
  /// - Returns: `done`, or `notFound` if no live record exists.
  /// - Throws: The errors of `load`. If a sync fails, the change is made but may not be on the medium.
  @discardableResult
  public func touch(_ key: BlobKey) throws(BlobStoreError) -> Outcome {
    try withErrorContext("touch", key) {
      let now = core.configuration.now()
      return try Records(core).changeHeader(
        of: key, now, syncsEntry: false, level: core.configuration.durability.level(concernsLock: false)
      ) {
        // The time is read again, because others may have changed the record while this call waited for the stripe.
        $0.touched(at: core.configuration.now())
      }
    }
  }

  /// Sets the update time of a live record to now, whatever its time to live. Returns and throws as `touch`.
  @discardableResult
  package func renew(_ key: BlobKey) throws(BlobStoreError) -> Outcome {
    try withErrorContext("renew", key) {
      try Records(core).changeHeader(
        of: key, core.configuration.now(), syncsEntry: false,
        level: core.configuration.durability.level(concernsLock: false)
      ) {
        $0.renewed(at: core.configuration.now())
      }
    }
  }

  /// Adds a lock to a live record, which then stays live at any age until it is unlocked.
  ///
  /// - Returns: `done`, or `notFound` if no live record exists.
  /// - Throws: `lockCountOverflow` at 2^32-1 locks; otherwise the errors of `load`. If a sync fails (`systemCall` is
  ///   `fsync(2)`), the lock is added but may not be on the medium.
  @discardableResult
  public func lock(_ key: BlobKey) throws(BlobStoreError) -> Outcome {
    try withErrorContext("lock", key) {
      // The record may have been stored without durability, so its name must be on the medium too.
      try Records(core).changeHeader(
        of: key, core.configuration.now(), syncsEntry: true,
        level: core.configuration.durability.level(concernsLock: true)
      ) { header throws(BlobStoreError) in
        guard header.refCount < .max else {
          throw BlobStoreError(.lockCountOverflow, "the record is locked \(header.refCount) times, which is the most")
        }
        header.refCount += 1
        return .changed
      }
    }
  }

  /// Removes a lock from a live record.
  ///
  /// - Parameters:
  ///   - key: The key of the record.
  ///   - force: A Boolean value that indicates whether all locks are removed.
  /// - Returns: `done`, `notLocked` if the record had no lock, or `notFound` if no live record exists.
  /// - Throws: The errors of `load`. If a sync fails, the lock is removed but the change may not be on the medium.
  @discardableResult
  public func unlock(_ key: BlobKey, force: Bool = false) throws(BlobStoreError) -> Outcome {
    try withErrorContext("unlock", key) {
      try Records(core).changeHeader(
        of: key, core.configuration.now(), syncsEntry: false,
        level: core.configuration.durability.level(concernsLock: true)
      ) { header in
        guard header.isLocked else { return .unchanged(.notLocked) }
        header.refCount = force ? 0 : header.refCount - 1
        return .changed
      }
    }
  }

  /// Touches several records, each of which may fail independently of the others.
  public func touch(_ keys: some Sequence<BlobKey>) -> [KeyResult] {
    results(for: keys) { key throws(BlobStoreError) in try touch(key) }
  }

  /// Locks several records, each of which may fail independently of the others.
  public func lock(_ keys: some Sequence<BlobKey>) -> [KeyResult] {
    results(for: keys) { key throws(BlobStoreError) in try lock(key) }
  }

  /// Unlocks several records, each of which may fail independently of the others.
  public func unlock(_ keys: some Sequence<BlobKey>, force: Bool = false) -> [KeyResult] {
    results(for: keys) { key throws(BlobStoreError) in try unlock(key, force: force) }
  }

  func results(
    for keys: some Sequence<BlobKey>, _ operation: (BlobKey) throws(BlobStoreError) -> Outcome
  ) -> [KeyResult] {
    keys.map { key in
      do throws(BlobStoreError) {
        return KeyResult(key: key, result: .success(try operation(key)))
      } catch {
        return KeyResult(key: key, result: .failure(error))
      }
    }
  }
}

// MARK: - Changing a header

extension RecordHeader {
  fileprivate mutating func touched(at now: UnixTime) -> HeaderChange {
    ttl == 0 ? renewed(at: now) : .unchanged(.done)
  }

  fileprivate mutating func renewed(at now: UnixTime) -> HeaderChange {
    let time = UInt64(clamping: now.seconds)
    guard updateTime != time else { return .unchanged(.done) }
    updateTime = time
    return .changed
  }

  /// Advances the update time as a load does, which never moves it back.
  fileprivate mutating func touchedByLoad(at now: UnixTime) -> HeaderChange {
    lastUpdate < now ? touched(at: now) : .unchanged(.done)
  }
}

extension Records {
  /// Changes the header of a live record in place. `full` durability includes the directory entry if `syncsEntry` is
  /// set, because the entry may be as new as the record.
  fileprivate func changeHeader(
    of key: BlobKey, _ now: UnixTime, syncsEntry: Bool, level: BlobStore.Durability.Level,
    _ change: (inout RecordHeader) throws -> HeaderChange
  ) throws -> BlobStore.Outcome {
    let rewritten: RewrittenRecord
    do {
      // The key is released at the end of this block, so that synchronizations can run concurrently.
      guard var transaction = try transaction(of: try core.path(for: key)) else { return .notFound }
      rewritten = try transaction.rewriteHeader(at: now, level, change)
    }
    return try rewritten.synchronize(level, syncsEntry: syncsEntry)
  }

  /// Advances the update time after a load if the stripe is free, and returns it if it is known. A failure shortens
  /// the record's life, but does not fail the load. A file with a second name does not change, because it would be
  /// copied.
  func touchAfterLoad(_ path: RecordPath, _ now: UnixTime) -> UnixTime? {
    do {
      guard var transaction = try transactionIfAvailable(of: path) else { return nil }
      var update: UnixTime?
      let written = try transaction.rewriteHeader(at: now, .none, copiesLinked: false) { header in
        let change = header.touchedByLoad(at: now)
        update = header.lastUpdate
        return change
      }
      if case .settled(_, isLeftLinked: true) = written { return nil }
      return update
    } catch {
      core.configuration.logger.debug("\(BlobStoreError(error, operation: "touch after load", key: nil))")
      return nil
    }
  }
}
