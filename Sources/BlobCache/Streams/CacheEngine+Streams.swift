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

  /// Puts what a writer has written in its place. Blocks.
  func commit(_ writer: consuming BlobWriter, queueTime: Duration) throws -> RecordHeader {
    let stopwatch = observer.stopwatch()
    let (key, byteCount) = (writer.key, writer.byteCount)
    let digest = try store.digest(of: key, for: "store")
    // Taken where it is committed, as closures may not consume what they capture.
    var writer: BlobWriter? = writer
    let header = try replacing(key) { wasStaged in
      try generations.changing(digest) {
        // Taken once, as the closure is called once.
        try writer.take()!.commit(replacingNothing: wasStaged)
      }
    }
    memory?.discard(key)
    failures.forget(key)
    remote?.didChange(key, byteCount: byteCount)
    backupExclusion.apply()
    observer.tell(
      CacheEvent(
        .stored(staged: false), key, byteCount: Int(clamping: byteCount), duration: stopwatch.elapsed,
        queueTime: queueTime))
    return header
  }
}
