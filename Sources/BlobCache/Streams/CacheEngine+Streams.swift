internal import BlobRecord
internal import BlobStore

extension CacheEngine {
  /// Opens a record on disk. Blocks.
  ///
  /// - Parameter tellsMiss: false if it is looked for elsewhere then.
  func openReader(
    for key: BlobKey, touching: Bool, queueTime: Duration, tellsMiss: Bool = true
  ) throws -> BlobReader? {
    let stopwatch = observer.stopwatch()
    // The reader must find the latest blob. If it cannot be written, the flush says so, and the one before is there.
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
    // The old blob goes now. What is staged is as old, and must not be written over the new one.
    writeStaged(key)
    let digest = try store.digest(of: key, for: "store")
    let writer = try productions.changing(key) {
      let hadBlob = try store.contains(key)
      let writer = try generations.changing(digest, open)
      // Whatever becomes of the new blob, the old one is gone. What only other machines have stays there.
      if hadBlob { remote?.didRemove(key) }
      return writer
    }
    memory?.discard(key)
    return writer
  }

  /// Puts what a writer has written in its place. Blocks.
  ///
  /// - Parameter isFetched: whether the blob came from the remote tier.
  /// - Throws: `Superseded` if the condition does not hold.
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
    // Taken where it is committed, as closures may not consume what they capture.
    var writer: BlobWriter? = writer
    let header = try generations.changing(digest) {
      // Taken once, as it is called once.
      guard let header = try writer.take()!.commit(replacingNothing: replacesNothing, if: condition) else {
        throw Superseded()
      }
      // Before the change ends: what is fetched meanwhile is not stored.
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
