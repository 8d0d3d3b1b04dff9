internal import BlobRecord
internal import BlobStore
internal import Logging

extension CacheEngine {
  /// Reads a live and undamaged slice of the given size from disk, bypassing memory. Blocks.
  func readSlice(_ key: BlobKey, _ byteCount: Int?, queueTime: Duration) throws -> Blob? {
    let stopwatch = observer.stopwatch()
    func tell(_ kind: CacheEvent.Kind, byteCount: Int = 0) {
      observer.tell(
        CacheEvent(kind, key, byteCount: byteCount, duration: stopwatch.elapsed, queueTime: queueTime))
    }
    let blob: Blob?
    do throws(BlobStoreError) {
      blob = try store.load(key)
    } catch {
      guard let damage = error.recordError, damage.mayBeReplaced else { throw error }
      tell(.damaged(error))
      return nil
    }
    guard let blob, blob.payload.count == byteCount ?? blob.payload.count else {
      tell(.miss)
      return nil
    }
    tell(.hit(.disk), byteCount: blob.payload.count)
    return blob
  }

  /// Checks the header of a slice on disk, which does not count as a use. Blocks.
  func hasSlice(_ key: BlobKey, _ byteCount: Int) throws -> Bool {
    do throws(BlobStoreError) {
      return try store.header(for: key)?.payloadSize == UInt64(byteCount)
    } catch {
      guard let damage = error.recordError, damage.mayBeReplaced else { throw error }
      return false
    }
  }

  /// Stores a slice, bypassing memory, or returns `false` if the condition does not hold. Blocks.
  func storeSlice(
    _ bytes: Data, for key: BlobKey, ttl: Duration?, if condition: StoreCondition?, queueTime: Duration
  ) throws -> Bool {
    let stopwatch = observer.stopwatch()
    let digest = try store.digest(of: key, for: "store")
    let receipt = try generations.changing(digest) {
      try store.storeWithReceipt(bytes.bytes, nil, for: key, ttl: ttl, locks: .none, if: condition)
    }
    memory?.discard(key)
    backupExclusion.apply()
    guard receipt != nil else { return false }
    observer.tell(
      CacheEvent(
        .stored(staged: false), key, byteCount: bytes.count, duration: stopwatch.elapsed, queueTime: queueTime))
    return true
  }

  func tellUnstored(_ error: BlobStoreError, _ key: BlobKey, byteCount: Int) {
    store.configuration.logger.warning("a slice is fetched and not stored: \(error)")
    observer.tell(CacheEvent(.writeFailed(error), key, byteCount: byteCount))
  }

  func removeSlices(of layout: SliceLayout) async throws {
    let batchSize: Int64 = 64
    var start: Int64 = 0
    while start < layout.count {
      let batch = start..<min(start + batchSize, layout.count)
      // Batches let other tasks use the thread, and allow cancellation.
      try Task.checkCancellation()
      try await lanes.removals.run { [self] queueTime in
        // Slices are not in the remote tier, because their object is remote already.
        for index in batch {
          _ = try remove(layout.key(ofSlice: index), if: nil, queueTime: queueTime, isOfRemote: false)
        }
      }
      start = batch.upperBound
    }
  }
}
