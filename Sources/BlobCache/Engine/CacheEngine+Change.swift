internal import BlobRecord
internal import BlobStore
internal import MemoryCache
internal import SystemPackage

extension CacheEngine {
  /// Stages a blob, without the disk.
  ///
  /// - Returns: nil if it has to be written by the caller: stores are written through, or there is no room.
  /// - Throws: `Superseded` if the request's condition does not hold.
  func stage(_ request: StoreRequest, for key: BlobKey) throws -> Blob? {
    guard let staging, request.mayBeStaged else { return nil }
    // A refusal must come now, while the caller waits for it.
    try store.checkStore(byteCount: request.payload.count, request.extendedData, for: key, ttl: request.ttl)
    let header = try store.prospectiveHeader(
      for: key, request.payload.bytes, request.extendedData, ttl: request.ttl)
    // Judged again when it is written; but loads must not see a stale blob meanwhile.
    if let condition = request.condition, let history = try store.history(of: key), !condition.holds(in: history) {
      throw Superseded()
    }
    let request = request.owned
    let blob = request.blob(key, header)
    guard changing(key, by: request, { staging.stage(blob, request) }) else { return nil }
    failures.forget(key)
    observer.tell(CacheEvent(.stored(staged: true), key, byteCount: request.payload.count))
    startWritingStaged()
    return blob
  }

  func startWritingStaged() {
    // Weakly, because it may be delayed for long: the last reference to a cache writes all before (`shutDown`).
    staging?.startWriting(on: lanes.writes) { [weak self] in self?.writeStaged() }
  }

  /// Writes a blob after those staged before it. Blocks.
  ///
  /// - Throws: `Superseded` if the request's condition does not hold.
  @discardableResult
  func writeInTurn(_ request: StoreRequest, for key: BlobKey, queueTime: Duration = .zero) throws -> Blob {
    let change = KeyChange(of: key, if: request.condition, in: self)
    var request = request
    // The locks on disk belong to a record that the staged one has replaced.
    if change.wasStaged { request.locks = request.locks.replacingNothing }
    let blob = try write(request, for: key, queueTime: queueTime)
    change.finish()
    return blob
  }

  /// Runs a store of a key, which supersedes a production of it, unless it stores that one's blob.
  private func changing<Result>(
    _ key: BlobKey, by request: StoreRequest, _ change: () throws -> Result
  ) rethrows -> Result {
    try request.condition?.isOfProduction != true ? productions.changing(key, change) : change()
  }

  /// Writes a blob, and keeps it in memory. Blocks.
  ///
  /// - Throws: `Superseded` if the request's condition does not hold.
  @discardableResult
  func write(
    _ request: StoreRequest, for key: BlobKey, wasStaged: Bool = false, queueTime: Duration = .zero
  ) throws -> Blob {
    let stopwatch = observer.stopwatch()
    let digest = try store.digest(of: key, for: "store")
    let header = memory?.headerStamp(of: digest)
    let receipt: StoreReceipt?
    do {
      generations.beginChange(of: digest)
      defer { generations.endChange(of: digest) }
      receipt = try store.storeWithReceipt(
        request.payload.bytes, request.extendedData, for: key, ttl: request.ttl, locks: request.locks,
        at: request.updateTime, if: request.condition)
    }
    guard let receipt else { throw Superseded() }
    var blob = request.blob(key, receipt.header)
    if let memory, let header {
      if let stamp = GenerationStamp(receipt), configuration.memory?.keepsStored ?? false {
        blob = request.ownBlob(key, receipt.header)
        memory.keep(blob, digest: digest, in: stamp, since: header, update: nil)
      } else {
        memory.discard(key)
      }
    }
    failures.forget(key)
    backupExclusion.apply()
    observer.tell(
      CacheEvent(
        wasStaged ? .written : request.isFetched ? .fetched : .stored(staged: false), key,
        byteCount: request.payload.count,
        duration: stopwatch.elapsed, queueTime: queueTime))
    if !request.isFetched {
      remote?.didStore(blob) { [store] in
        // The error of a generation that cannot be read is harmless: the engine then gets what the directory has, which is
        // the latest at any time.
        receipt.generation != nil && (try? store.generation(ofDigest: digest)) == receipt.generation
      }
    }
    return blob
  }
}

// MARK: - Other changes

extension CacheEngine {
  /// Blocks, as do all below.
  func touch(_ key: BlobKey) throws -> BlobStore.Outcome {
    try flushStaged(key)
    // Read before: the touch does not set an earlier time than this.
    let now = store.configuration.now()
    let outcome = try store.touch(key)
    if outcome == .done { try memory?.wasTouched(key, digest: store.digest(of: key, for: "touch"), at: now) }
    return outcome
  }

  func renew(_ key: BlobKey) throws -> BlobStore.Outcome {
    try flushStaged(key)
    let outcome = try store.renew(key)
    try memory?.didChangeHeader(of: key, digest: store.digest(of: key, for: "renew"))
    return outcome
  }

  func lock(_ key: BlobKey) throws -> BlobStore.Outcome {
    try flushStaged(key)
    let outcome = try store.lock(key)
    try memory?.didChangeHeader(of: key, digest: store.digest(of: key, for: "lock"))
    return outcome
  }

  func unlock(_ key: BlobKey, force: Bool) throws -> BlobStore.Outcome {
    try flushStaged(key)
    let outcome = try store.unlock(key, force: force)
    try memory?.didChangeHeader(of: key, digest: store.digest(of: key, for: "unlock"))
    return outcome
  }

  func setExtendedData(_ data: Data?, for key: BlobKey) throws -> BlobStore.Outcome {
    let digest = try store.digest(of: key, for: "setExtendedData")
    try flushStaged(key)
    let outcome = try generations.changing(digest) {
      let outcome = try store.setExtendedData(data, for: key)
      // Before the change ends: what is fetched meanwhile is not stored.
      if outcome == .done { remote?.didChange(key) }
      return outcome
    }
    memory?.discard(key)
    if outcome == .done { observer.tell(CacheEvent(.extendedDataReplaced, key, byteCount: data?.count ?? 0)) }
    return outcome
  }

  /// - Parameter erasing: whether its bytes go at once.
  func remove(_ key: BlobKey, erasing: Bool = false, queueTime: Duration = .zero) throws -> BlobStore.Outcome {
    // Without a condition, there is an outcome.
    try remove(key, erasing: erasing, if: nil, queueTime: queueTime) ?? .notFound
  }

  /// - Parameter isOfRemote: whether the remote tier may have the key.
  /// - Returns: nil if the condition does not hold for the record that there is.
  func remove(
    _ key: BlobKey, erasing: Bool = false, if condition: StoreCondition?, queueTime: Duration, isOfRemote: Bool = true
  ) throws -> BlobStore.Outcome? {
    let stopwatch = observer.stopwatch()
    let digest = try store.digest(of: key, for: "remove")
    let change = KeyChange(of: key, if: condition, in: self)
    var outcome = try generations.changing(digest) {
      if let condition { try store.remove(key, if: condition) } else { try store.remove(key, erasing: erasing) }
    }
    if outcome != nil {
      // Where nothing is here, the condition was not asked. One that wants a record does not hold.
      let isMeant = outcome == .done || change.wasStaged || condition?.allows(nil) ?? true
      // Before the change ends: what is fetched meanwhile is not stored.
      if isOfRemote, isMeant { remote?.didRemove(key) }
      if change.wasStaged { outcome = .done }
    }
    change.finish()
    memory?.discard(key)
    guard outcome == .done else { return outcome }
    observer.tell(CacheEvent(.removed, key, duration: stopwatch.elapsed, queueTime: queueTime))
    return .done
  }

  /// Removes the records with a prefix, one by one: so memory and productions hear of each.
  func remove(prefix: String, isStopped: @Sendable () -> Bool) throws -> BlobStore.RemovalReport {
    try BlobStore.checkRemovable(prefix: prefix)
    try flushStaged()
    var report = BlobStore.RemovalReport()
    for entry in try store.records(prefix: prefix) {
      if isStopped() {
        report.wasStopped = true
        break
      }
      if let error = entry.accessError { throw error }
      // A file whose name is no key's has no key with that prefix.
      guard let key = entry.key else { continue }
      // Of the remote tier's objects, only those are removed that are asked for: `removeEverywhere(prefix:)`.
      guard try remove(key, if: nil, queueTime: .zero, isOfRemote: false) == .done else { continue }
      report.files += 1
      report.bytes += entry.fileSize
    }
    return report
  }

  /// Removes something, and then what waits in the recycling bin, if that is asked for.
  func purging<Result>(_ purges: Bool, _ remove: () throws -> Result) throws -> Result {
    let result = try remove()
    if purges { try store.emptyRecyclingBin() }
    return result
  }

  /// Does one thing to many keys; a failure does not stop the others.
  func each(_ keys: [BlobKey], _ operation: (BlobKey) throws -> BlobStore.Outcome) -> [BlobStore.KeyResult] {
    keys.map { key in
      do {
        return BlobStore.KeyResult(key: key, result: .success(try operation(key)))
      } catch {
        // Why a staged blob could not be written says more than that it could not be.
        let error = (error as? BlobCacheError)?.cause as? BlobStoreError ?? error
        return BlobStore.KeyResult(key: key, result: .failure(BlobStoreError(anything: error, operation: "", key: key)))
      }
    }
  }

  func removeAll(_ scope: BlobStore.RemovalScope, _ options: BlobStore.RemovalOptions) throws -> BlobStore.RemovalReport
  {
    func wipe() throws -> BlobStore.RemovalReport {
      defer { memory?.cache.removeAll() }
      return try generations.changingAll { try store.removeAll(scope, options) }
    }
    return try productions.changingAll {
      guard scope == .all, let staging else {
        try flushStaged()
        return try wipe()
      }
      // If the wipe fails or is stopped, blobs that are still staged must be written.
      defer { startWritingStaged() }
      return try staging.replacingAll(wipe) { !$0.wasStopped }
    }
  }

  /// A repair removes damaged records, which memory does not answer from: it keeps what was sound when it was read.
  func verify(
    repairing policy: BlobStore.DamagePolicy, _ visit: (BlobStore.VerificationFinding) -> Void
  ) throws -> BlobStore.VerificationReport {
    try flushStaged()
    defer { if policy != .report { generations.changingAll {} } }
    return try store.verify(repairing: policy, visit)
  }

  /// An import stores under many keys that are known only as it meets them: it is a change of all.
  func importFiles(
    from directory: FilePath, _ options: BlobStore.ImportOptions, _ visit: (BlobStore.ImportFinding) -> Void
  ) throws -> BlobStore.ImportReport {
    try flushStaged()
    return try productions.changingAll {
      defer { memory?.cache.removeAll() }
      return try generations.changingAll { try store.importFiles(from: directory, options, visit) }
    }
  }

  func withExclusiveAccess<Result>(to key: BlobKey, _ body: (FilePath) throws -> Result) throws -> Result {
    try flushStaged(key)
    return try store.withExclusiveAccess(to: key, body)
  }

  func collect(_ options: BlobStore.CollectionOptions) throws(BlobStoreError) -> BlobStore.CollectionReport {
    try collecting { () throws(BlobStoreError) in try store.collect(options) }
  }

  func trim(to goal: BlobStore.TrimGoal, _ options: BlobStore.CollectionOptions) throws -> BlobStore.CollectionReport {
    try flushStaged()
    return try collecting { () throws(BlobStoreError) in try store.trim(to: goal, options) }
  }

  /// Runs a collection; memory keeps what it does not remove.
  ///
  /// The store's observer reports each removed record to the generations.
  private func collecting(
    _ collect: () throws(BlobStoreError) -> BlobStore.CollectionReport
  ) throws(BlobStoreError) -> BlobStore.CollectionReport {
    var isWholeKnown = false
    // A file may be gone whose removal has failed all the same.
    defer { if !isWholeKnown { generations.changingAll {} } }
    let report = try collect()
    isWholeKnown = report.failed == 0
    return report
  }
}
