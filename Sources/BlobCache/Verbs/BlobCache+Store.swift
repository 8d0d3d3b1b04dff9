public import BlobRecord
package import BlobStore

extension BlobCache {
  /// Stores a blob on disk and in memory, and replaces an earlier one of the key.
  ///
  /// It returns when the blob is on disk. With `Writing.behind` it returns when the blob is staged, unless it is
  /// locked. A staged blob's time to live counts from when it is written.
  ///
  /// - Parameters:
  ///   - payload: the blob's bytes.
  ///   - key: what it is found by.
  ///   - ttl: the time to live, rounded up to whole seconds; nil for the default expiration, counted from last access.
  ///   - locks: the locks of the new record: none, one, or those of the old one.
  ///   - extendedData: what lies beside the payload, such as a content type: at most 4 KiB.
  /// - Throws: `BlobStoreError`, as `BlobStore.store`; `CancellationError` if the task is cancelled while it waits for a
  ///   thread, nothing being stored; `closed`.
  public func store(
    _ payload: Data, for key: BlobKey, ttl: Duration? = nil, locks: BlobStore.LockPolicy = .none,
    extendedData: Data? = nil
  ) async throws {
    let engine = try openEngine()
    let request = StoreRequest(payload: payload, ttl: ttl, locks: locks, extendedData: extendedData)
    if try engine.stage(request, for: key) == nil {
      try await withSpan("store", key) {
        _ = try await engine.lanes.writes.run { try engine.writeInTurn(request, for: key, queueTime: $0) }
      }
    }
    await engine.wasStored(key)
  }

  /// Returns when all that was staged before is on disk. Without `Writing.behind` there is nothing to wait for.
  ///
  /// - Throws: `writeFailed` if something staged could not be written since the last flush; `closed`.
  public func flush() async throws {
    let engine = try openEngine()
    guard engine.staging != nil else { return }
    try await engine.lanes.writes.run { _ in try engine.flushStaged() }
  }

  /// Returns when what was staged for a key before is on disk.
  ///
  /// - Throws: `writeFailed` if it could not be written; `closed`.
  public func flush(_ key: BlobKey) async throws {
    let engine = try openEngine()
    guard engine.staging != nil else { return }
    try await engine.lanes.writes.run { _ in try engine.flushStaged(key) }
  }
}

// Changes that are made if the record in their place allows it, whatever other processes do meanwhile (Semantics.md, A29).
// What is staged for the key is written first.
extension BlobCache {
  /// Stores a blob on disk and in memory, as `store` without write-behind does, if the live record of the key allows it.
  ///
  /// - Parameter judge: is told the record's header; nil for no live record.
  /// - Returns: the header of the new record; nil if nothing was stored.
  package func store(
    _ payload: Data, for key: BlobKey, ttl: Duration?, locks: BlobStore.LockPolicy, extendedData: Data?,
    if judge: @escaping StoreCondition.Judge
  ) async throws -> RecordHeader? {
    let engine = try openEngine()
    var request = StoreRequest(payload: payload, ttl: ttl, locks: locks, extendedData: extendedData)
    request.condition = StoreCondition(onRecord: judge)
    let header = try await withSpan("store", key) { [request] in
      try await engine.lanes.writes.run { queueTime -> RecordHeader? in
        engine.writeStaged(key)
        do {
          return try engine.writeInTurn(request, for: key, queueTime: queueTime).header
        } catch is Superseded {
          return nil
        }
      }
    }
    if header != nil { await engine.wasStored(key) }
    return header
  }

  /// Removes a record if it allows that.
  ///
  /// - Parameter judge: is told the header of the record that there is; nil for one that is not live.
  /// - Returns: nil if nothing was removed, though there is a record.
  package func remove(_ key: BlobKey, if judge: @escaping StoreCondition.Judge) async throws -> BlobStore.Outcome? {
    let engine = try openEngine()
    return try await withSpan("remove", key) {
      try await engine.lanes.removals.run { queueTime in
        engine.writeStaged(key)
        return try engine.remove(key, if: StoreCondition(onRecord: judge), queueTime: queueTime)
      }
    }
  }
}
