public import BlobRecord
internal import Logging
internal import Posix
internal import SystemPackage

extension BlobStore {
  /// Sets the update time of a record with ttl 0 to now, even if that is earlier. A record with a ttl of its own stays
  /// as it is.
  ///
  /// - Returns: `done`; `notFound` if there is no live record.
  /// - Throws: as `load`. When it throws for a sync, the change is made but not known to be on the medium.
  @discardableResult
  public func touch(_ key: BlobKey) throws(BlobStoreError) -> Outcome {
    try withErrorContext("touch", key) {
      let now = core.configuration.now()
      return try core.changeHeader(
        of: key, now, syncsEntry: false, level: core.configuration.durability.level(concernsLock: false)
      ) {
        // Read anew: while this one waited for the stripe, others may have stored or touched, later than it began.
        $0.touched(at: core.configuration.now())
      }
    }
  }

  /// Sets the update time of a live record to now, whatever its time to live.
  ///
  /// - Returns: `done`; `notFound` if there is no live record.
  /// - Throws: as `touch`.
  @discardableResult
  package func renew(_ key: BlobKey) throws(BlobStoreError) -> Outcome {
    try withErrorContext("renew", key) {
      try core.changeHeader(
        of: key, core.configuration.now(), syncsEntry: false,
        level: core.configuration.durability.level(concernsLock: false)
      ) {
        $0.renewed(at: core.configuration.now())
      }
    }
  }

  /// Adds a lock to a live record, which then lives until it is unlocked. A locked record is live at any age.
  ///
  /// - Returns: `done`; `notFound` if there is no live record.
  /// - Throws: `lockCountOverflow` at 2^32-1 locks; else as `load`. When it throws for a sync (`systemCall` is
  ///   `fsync(2)`), the lock is added but not known to be on the medium.
  @discardableResult
  public func lock(_ key: BlobKey) throws(BlobStoreError) -> Outcome {
    try withErrorContext("lock", key) {
      // The record may have been stored with no durability: its name must be on the medium too.
      try core.changeHeader(
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

  /// Takes a lock off a live record.
  ///
  /// - Parameters:
  ///   - key: the key of the record.
  ///   - force: whether to take all locks off.
  /// - Returns: `done`; `notLocked` if there was no lock; `notFound` if there is no live record.
  /// - Throws: as `load`. When it throws for a sync, the lock is off, but the change may not be on the medium.
  @discardableResult
  public func unlock(_ key: BlobKey, force: Bool = false) throws(BlobStoreError) -> Outcome {
    try withErrorContext("unlock", key) {
      try core.changeHeader(
        of: key, core.configuration.now(), syncsEntry: false,
        level: core.configuration.durability.level(concernsLock: true)
      ) { header in
        guard header.isLocked else { return .unchanged(.notLocked) }
        header.refCount = force ? 0 : header.refCount - 1
        return .changed
      }
    }
  }

  /// Touches several records; one that fails does not keep the others from it.
  public func touch(_ keys: some Sequence<BlobKey>) -> [KeyResult] {
    results(for: keys) { key throws(BlobStoreError) in try touch(key) }
  }

  /// Locks several records; one that fails does not keep the others from it.
  public func lock(_ keys: some Sequence<BlobKey>) -> [KeyResult] {
    results(for: keys) { key throws(BlobStoreError) in try lock(key) }
  }

  /// Unlocks several records; one that fails does not keep the others from it.
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
  /// Sets the update time to now, but only for ttl 0.
  fileprivate mutating func touched(at now: UnixTime) -> HeaderChange {
    ttl == 0 ? renewed(at: now) : .unchanged(.done)
  }

  fileprivate mutating func renewed(at now: UnixTime) -> HeaderChange {
    let time = UInt64(clamping: now.seconds)
    guard updateTime != time else { return .unchanged(.done) }
    updateTime = time
    return .changed
  }

  /// Moves the update time as a load does: never back.
  fileprivate mutating func touchedByLoad(at now: UnixTime) -> HeaderChange {
    lastUpdate < now ? touched(at: now) : .unchanged(.done)
  }
}

extension StoreCore {
  /// Reads the header of a live record, lets `change` change it, and writes it where it lies.
  ///
  /// - Parameter syncsEntry: whether `full` includes the directory entry, which may be as new as the record.
  fileprivate func changeHeader(
    of key: BlobKey, _ now: UnixTime, syncsEntry: Bool, level: BlobStore.Durability.Level,
    _ change: (inout RecordHeader) throws -> HeaderChange
  ) throws -> BlobStore.Outcome {
    let rewritten: RewrittenRecord
    do {
      // The key is free at the end of this: what is synced is synced beside others.
      guard var transaction = try transaction(of: try path(for: key)) else { return .notFound }
      rewritten = try transaction.rewriteHeader(at: now, level, change)
    }
    return try rewritten.synchronize(level, syncsEntry: syncsEntry)
  }

  /// Moves the update time after a load, if the stripe is free. A failure costs the record some of its life, never the
  /// load. A record with another name stays as it is: a load does not copy payloads.
  ///
  /// - Returns: the record's update time afterwards; nil if it is not known.
  func touchAfterLoad(_ path: RecordPath, _ now: UnixTime) -> UnixTime? {
    do {
      guard var transaction = try transactionIfAvailable(of: path) else { return nil }
      var update: UnixTime?
      let written = try transaction.rewriteHeader(at: now, .none, copiesLinked: false) { header in
        let change = header.touchedByLoad(at: now)
        update = header.lastUpdate
        return change
      }
      if case .leftLinked = written { return nil }
      return update
    } catch {
      configuration.logger.debug("\(BlobStoreError(error, operation: "touch after load", key: nil))")
      return nil
    }
  }
}
