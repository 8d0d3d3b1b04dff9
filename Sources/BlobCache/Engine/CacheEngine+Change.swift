internal import BlobRecord
internal import BlobStore
internal import MemoryCache
internal import SystemPackage

extension CacheEngine {
  /// Stages a blob without accessing the disk, or returns `nil` if stores are written through or the area is full.
  ///
  /// - Throws: `Superseded` if the request's condition does not hold.
  func stage(_ request: StoreRequest, for key: BlobKey) throws -> Blob? {
    guard let staging, request.mayBeStaged else { return nil }
    // The limits are checked now, because the caller waits only for the staging.
    try store.checkStore(byteCount: request.payload.count, request.extendedData, for: key, ttl: request.ttl)
    let header = try store.prospectiveHeader(
      for: key, request.payload.bytes, request.extendedData, ttl: request.ttl)
    // The condition is checked again on writing, but until then, loads must not return a stale blob.
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
    // Weak, because writing may be delayed; the last cache writes all staged blobs in `shutDown`.
    staging?.startWriting(on: lanes.writes) { [weak self] in self?.writeStaged() }
  }

  /// Writes a blob in place of the staged one, or throws `Superseded` if the condition does not hold. Blocks.
  @discardableResult
  func writeInTurn(_ request: StoreRequest, for key: BlobKey, queueTime: Duration = .zero) throws -> Blob {
    let change = KeyChange(of: key, if: request.condition, in: self)
    var request = request
    // The locks on disk belong to a record that the staged blob has replaced.
    if change.wasStaged { request.locks = request.locks.replacingNothing }
    let blob = try write(request, for: key, queueTime: queueTime)
    change.finish()
    return blob
  }

  /// Runs a store of a key, which supersedes a production of it, unless it stores the blob of that production.
  private func changing<Result>(
    _ key: BlobKey, by request: StoreRequest, _ change: () throws -> Result
  ) rethrows -> Result {
    try request.condition?.isOfProduction != true ? productions.changing(key, change) : change()
  }

  /// Writes a blob, and keeps it in memory, or throws `Superseded` if the request's condition does not hold. Blocks.
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
        // Without a generation, or if it cannot be read, the remote tier reads the directory, which always has the latest
        // blob.
        receipt.generation != nil && (try? store.generation(ofDigest: digest)) == receipt.generation
      }
    }
    return blob
  }
}

// MARK: - Other changes

extension CacheEngine {
  /// Touches a record. Blocks, as do all methods below.
  func touch(_ key: BlobKey) throws -> BlobStore.Outcome {
    try flushStaged(key)
    // The clock is read first, because the touch does not set an earlier time than this.
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
      // This happens before the change ends, so that a concurrent fetch is not stored.
      if outcome == .done { remote?.didChange(key) }
      return outcome
    }
    memory?.discard(key)
    if outcome == .done { observer.tell(CacheEvent(.extendedDataReplaced, key, byteCount: data?.count ?? 0)) }
    return outcome
  }

  func remove(_ key: BlobKey, erasing: Bool = false, queueTime: Duration = .zero) throws -> BlobStore.Outcome {
    // Without a condition, there is always an outcome.
    try remove(key, erasing: erasing, if: nil, queueTime: queueTime) ?? .notFound
  }

  /// - Parameter isOfRemote: A Boolean value that indicates whether the remote object is removed too.
  /// - Returns: The outcome, or `nil` if the condition does not hold for the existing record.
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
      // Without a local record, the condition was not evaluated. A condition that requires a record then does not hold.
      let isMeant = outcome == .done || change.wasStaged || condition?.allows(nil) ?? true
      // This happens before the change ends, so that a concurrent fetch is not stored.
      if isOfRemote, isMeant { remote?.didRemove(key) }
      if change.wasStaged { outcome = .done }
    }
    change.finish()
    memory?.discard(key)
    guard outcome == .done else { return outcome }
    observer.tell(CacheEvent(.removed, key, duration: stopwatch.elapsed, queueTime: queueTime))
    return .done
  }

  /// Removes the records with a prefix one by one, so that memory and productions are notified of each.
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
      // A file whose name is not a key has no key with that prefix.
      guard let key = entry.key else { continue }
      // Objects of the remote tier are only removed on request: `removeEverywhere(prefix:)`.
      guard try remove(key, if: nil, queueTime: .zero, isOfRemote: false) == .done else { continue }
      report.files += 1
      report.bytes += entry.fileSize
    }
    return report
  }

  func purging<Result>(_ purges: Bool, _ remove: () throws -> Result) throws -> Result {
    let result = try remove()
    if purges { try store.emptyRecyclingBin() }
    return result
  }

  /// Performs an operation for many keys; a failure does not stop the others.
  func each(_ keys: [BlobKey], _ operation: (BlobKey) throws -> BlobStore.Outcome) -> [BlobStore.KeyResult] {
    keys.map { key in
      do {
        return BlobStore.KeyResult(key: key, result: .success(try operation(key)))
      } catch {
        // The reason why a staged blob could not be written is more useful than `writeFailed`.
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

  /// A repair removes damaged records. Memory must not return them, although they were sound when they were read.
  func verify(
    repairing policy: BlobStore.DamagePolicy, _ visit: (BlobStore.VerificationFinding) -> Void
  ) throws -> BlobStore.VerificationReport {
    try flushStaged()
    defer { if policy != .report { generations.changingAll {} } }
    return try store.verify(repairing: policy, visit)
  }

  /// An import counts as a change of all keys, because its keys are known only as it reads them.
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

  /// Runs a collection. The other records stay in memory, because the store's observer reports each removed record.
  private func collecting(
    _ collect: () throws(BlobStoreError) -> BlobStore.CollectionReport
  ) throws(BlobStoreError) -> BlobStore.CollectionReport {
    var isWholeKnown = false
    // A file may have been removed although its removal has failed.
    defer { if !isWholeKnown { generations.changingAll {} } }
    let report = try collect()
    isWholeKnown = report.failed == 0
    return report
  }
}
