package import BlobRecord
package import BlobStore

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
