public import BlobRecord
package import BlobStore

extension BlobCache {
  /// Stores a blob on disk and in memory, and replaces an existing blob of the key.
  ///
  /// The method returns when the blob is on disk or, with `Writing.behind` and without locks, when the blob is
  /// staged. The time to live of a staged blob starts when it is written.
  ///
  /// - Parameters:
  ///   - payload: The bytes of the blob.
  ///   - key: The key of the blob.
  ///   - ttl: The time to live, rounded up to whole seconds, or `nil` for the default after the last access.
  ///   - locks: The locks of the new record: none, one, or the locks of the old record.
  ///   - extendedData: Additional data of at most 4 KiB, such as a content type.
  /// - Throws: `CancellationError` while it waits for a thread, so that nothing is stored, `closed`, and the errors
  ///   of `BlobStore.store`.
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

  /// Waits until all blobs staged before the call are on disk; returns immediately without `Writing.behind`.
  ///
  /// - Throws: `writeFailed` if a staged blob could not be written since the last flush, or `closed`.
  public func flush() async throws {
    let engine = try openEngine()
    guard engine.staging != nil else { return }
    try await engine.lanes.writes.run { _ in try engine.flushStaged() }
  }

  /// Waits until the blob that was staged for a key before the call is on disk.
  ///
  /// - Throws: `writeFailed` if the blob could not be written, or `closed`.
  public func flush(_ key: BlobKey) async throws {
    let engine = try openEngine()
    guard engine.staging != nil else { return }
    try await engine.lanes.writes.run { _ in try engine.flushStaged(key) }
  }
}

// Conditional changes, atomic with respect to other processes (Semantics.md, A29), after the staged blob is written.
extension BlobCache {
  /// Stores a blob without write-behind if a condition on the live record's header holds, otherwise returns `nil`.
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

  /// Removes a record if a condition on its header (`nil` if it is not live) holds, otherwise returns `nil`.
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
