internal import BlobRecord
internal import BlobStore

extension CacheEngine {
  /// Opens a record on disk, and reports a miss only if `tellsMiss` is set. Blocks.
  func openReader(
    for key: BlobKey, touching: Bool, queueTime: Duration, tellsMiss: Bool = true
  ) throws -> BlobReader? {
    let stopwatch = observer.stopwatch()
    // The reader must find the latest blob. If writing it fails, the next flush reports the error.
    writeStaged(key)
    do {
      let reader = try store.openReader(for: key, touching: touching)
      guard reader != nil || tellsMiss else { return nil }
      observer.tell(
        CacheEvent(
          reader == nil ? .miss : .hit(.disk), key, byteCount: Int(clamping: reader?.byteCount ?? 0),
          duration: stopwatch.elapsed, queueTime: queueTime))
      return reader
    } catch {
      if error.code == .damaged {
        observer.tell(CacheEvent(.damaged(error), key, duration: stopwatch.elapsed, queueTime: queueTime))
      }
      throw error
    }
  }

  /// Begins to store a blob in pieces. Blocks.
  func openWriter(
    for key: BlobKey, ttl: Duration?, locks: BlobStore.LockPolicy, expectedSize: Int64? = nil,
    extendedData: Data? = nil, visibility: BlobStore.Visibility
  ) throws -> CacheWriter {
    func open() throws -> CacheWriter {
      CacheWriter(
        self,
        try store.openWriter(
          for: key, ttl: ttl, locks: locks, expectedSize: expectedSize, extendedData: extendedData,
          visibility: visibility))
    }
    guard visibility == .whileWriting else { return try open() }
    // The old blob is removed now. A staged blob is also older than the new one, and must not replace it.
    writeStaged(key)
    let digest = try store.digest(of: key, for: "store")
    let writer = try productions.changing(key) {
      let hadBlob = try store.contains(key)
      let writer = try generations.changing(digest, open)
      // The old blob is lost even if the new one fails. A blob that only other machines have stays in the tier.
      if hadBlob { remote?.didRemove(key) }
      return writer
    }
    memory?.discard(key)
    return writer
  }

  /// Commits a writer, or throws `Superseded` if the condition does not hold. Blocks.
  func commit(
    _ writer: consuming BlobWriter, if condition: StoreCondition? = nil, isFetched: Bool = false, queueTime: Duration
  ) throws -> RecordHeader {
    let stopwatch = observer.stopwatch()
    let (key, byteCount) = (writer.key, writer.byteCount)
    let digest = try store.digest(of: key, for: "store")
    let isVisible = writer.isVisible
    if isVisible {
      // What was staged since the blob has its place is younger, and supersedes it.
      writeStaged(key)
    }
    let change = KeyChange(of: key, if: condition, replacingStaged: !isVisible, in: self)
    let replacesNothing = change.wasStaged
    // The writer is taken in the closure, because a closure must not consume what it captures.
    var writer: BlobWriter? = writer
    let header = try generations.changing(digest) {
      guard let header = try writer.take()!.commit(replacingNothing: replacesNothing, if: condition) else {
        throw Superseded()
      }
      // This happens before the change ends, so that a concurrent fetch is not stored.
      if !isFetched { remote?.didChange(key, byteCount: byteCount) }
      return header
    }
    change.finish()
    memory?.discard(key)
    failures.forget(key)
    backupExclusion.apply()
    observer.tell(
      CacheEvent(
        isFetched ? .fetched : .stored(staged: false), key, byteCount: Int(clamping: byteCount),
        duration: stopwatch.elapsed, queueTime: queueTime))
    return header
  }
}
