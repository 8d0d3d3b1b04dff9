internal import BlobRecord
internal import BlobStore
internal import Synchronization

/// Looks on disk that never wait: they are made where the caller is, before a lane is asked.
extension CacheEngine {
  /// Finds a blob on disk, without telling of a hit or a miss; never waits.
  ///
  /// The caller gives way afterwards.
  ///
  /// - Parameter tellsAbsence: whether a missing record is an answer.
  /// - Returns: nil if a lane has to look.
  func loadWithoutWaiting(_ key: BlobKey, touching: Bool, tellsAbsence: Bool = true) -> LookupResult? {
    // Nothing is lost with the error of an invalid key: the ordinary look, which follows, reports it.
    guard lanes.areReady, !touching || touches.hasRoom, let path = try? store.path(of: key, for: "load") else {
      return nil
    }
    let stopwatch = observer.stopwatch()
    let header = memory?.headerStamp(of: path.digest)
    var receipt = LoadReceipt()
    let answer = store.loadIfCached(key, at: path, touching: touching, tellsAbsence: tellsAbsence, &receipt)
    guard case .known(let blob) = answer else { return nil }
    if let blob { keep(blob, digest: path.digest, receipt, since: header) }
    return LookupResult(blob: blob, duration: stopwatch.elapsed)
  }

  private func keep(_ blob: Blob, digest: UInt64, _ receipt: LoadReceipt, since header: HeaderChanges.Stamp?) {
    var use: RecordUse?
    if let memory, let header, let stamp = GenerationStamp(receipt) {
      use = memory.keep(blob, digest: digest, in: stamp, since: header, update: nil)
    }
    guard let time = receipt.owedTouch else { return }
    touches.write(use ?? RecordUse(header: blob.header, key: blob.key, lifetime: 0), at: time)
  }

  /// The header of a key's record on disk; never waits.
  func headerWithoutWaiting(for key: BlobKey) -> CachedAnswer<RecordHeader> {
    lanes.areReady ? store.headerIfCached(for: key) : .unknown
  }

  /// Lets other tasks run, after each run of looks that were made where the caller is.
  ///
  /// A task that does nothing but load, alone, keeps its executor's thread for 32 looks at most. With small blobs, that is
  /// some hundred microseconds.
  func giveWay() async {
    let count = cachedLookCount.wrappingAdd(1, ordering: .relaxed).newValue
    if count.isMultiple(of: UInt32(Self.longestRun)) { await Task.yield() }
  }

  /// Looks that are made where the caller is, one after another.
  static var longestRun: Int { 32 }
}
