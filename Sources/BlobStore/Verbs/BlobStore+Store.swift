public import BlobRecord
internal import Posix

extension BlobStore {
  /// Stores a blob, in the place of the one that the key had.
  ///
  /// Readers see the old blob or the new one, whole. A store that throws leaves the old one as it was. The exception is
  /// a sync that fails after the change: the new one is in place then, but may not be on the medium.
  ///
  /// System calls: Spec/Performance.md 1.
  ///
  /// - Parameters:
  ///   - payload: the bytes.
  ///   - key: the key of the record.
  ///   - ttl: the time to live, rounded up to whole seconds; nil for the default expiration, counted from last access.
  ///   - locks: the locks of the new record: none, one, or those of the old one.
  ///   - extendedData: what lies beside the payload, such as a content type: at most 4 KiB. Those of the old record go
  ///     with it.
  /// - Throws: `invalidKey`, `invalidTimeToLive`, `payloadTooLarge`, `extendedDataTooLarge`, `extendedDataRefused`,
  ///   `foreignFile`, `fileSystem`.
  public func store(
    _ payload: Data, for key: BlobKey, ttl: Duration? = nil, locks: LockPolicy = .none,
    extendedData: Data? = nil
  ) throws(BlobStoreError) {
    try store(payload.bytes, for: key, ttl: ttl, locks: locks, extendedData: extendedData)
  }

  /// Stores bytes that lie somewhere in memory, without a copy of them.
  public func store(
    _ payload: RawSpan, for key: BlobKey, ttl: Duration? = nil, locks: LockPolicy = .none,
    extendedData: Data? = nil
  ) throws(BlobStoreError) {
    try withErrorContext("store", key) {
      _ = try publisher.publish(payload, extendedData, for: key, ttl: ttl, locks: locks, if: nil)
    }
  }

  /// Stores blobs, one after the other. Where small ones are packed, up to 256 of them are written by one call.
  ///
  /// Each store is whole for itself: readers may see some of the blobs before others, and one that fails leaves the others
  /// stored. Of two with the same key, the later one stays.
  ///
  /// - Parameters:
  ///   - blobs: the payloads and their keys.
  ///   - ttl: as that of a store of one.
  ///   - locks: as those of a store of one.
  /// - Returns: what became of each, in the order of the blobs.
  /// - Complexity: O(*n*) for *n* bytes. For packed blobs, a system call for 256 of them, and one sync of a pack where they
  ///   are durable.
  public func store(
    _ blobs: some Sequence<(key: BlobKey, payload: Data)>, ttl: Duration? = nil, locks: LockPolicy = .none
  ) -> [KeyResult] {
    let blobs = Array(blobs)
    var results: [KeyResult] = []
    results.reserveCapacity(blobs.count)
    while results.count < blobs.count {
      let batch = blobs[results.count..<min(results.count + PackedBatch.greatestCount, blobs.count)]
      let together = publisher.publishTogether(batch, ttl: ttl, locks: locks)
      let stored = Set(together.stored.map(\.index))
      for (index, blob) in zip(batch.indices, batch) {
        do {
          if let failure = together.failed.first(where: { $0.index == index }) { throw failure.error }
          if !stored.contains(index) { try store(blob.payload, for: blob.key, ttl: ttl, locks: locks) }
          results.append(KeyResult(key: blob.key, result: .success(.done)))
        } catch {
          results.append(
            KeyResult(
              key: blob.key, result: .failure(BlobStoreError(anything: error, operation: "store", key: blob.key))))
        }
      }
    }
    return results
  }

  /// Stores a blob, and tells what lies on disk now.
  ///
  /// - Parameters:
  ///   - time: from when on the time to live counts; nil for now.
  ///   - condition: must hold at the moment in which the record would take its place.
  /// - Returns: nil if it does not, and nothing was stored.
  package func storeWithReceipt(
    _ payload: RawSpan, _ extendedData: Data?, for key: BlobKey, ttl: Duration?, locks: LockPolicy,
    at time: UnixTime? = nil, if condition: StoreCondition?
  ) throws(BlobStoreError) -> StoreReceipt? {
    try withErrorContext("store", key) {
      do {
        return try publisher.publish(
          payload, extendedData, for: key, ttl: ttl, locks: locks, at: time, if: condition)
      } catch is ConditionFailed {
        return nil
      }
    }
  }
}

// MARK: - Preparing

extension BlobStore {
  var publisher: Publisher { Publisher(core: core, enforcer: limitEnforcer) }
}

extension Publisher {
  /// Stores bytes in memory.
  fileprivate func publish(
    _ payload: RawSpan, _ extendedData: Data?, for key: BlobKey, ttl: Duration?, locks: BlobStore.LockPolicy,
    at time: UnixTime? = nil, if condition: StoreCondition?
  ) throws -> StoreReceipt {
    try core.checkSize(Int64(payload.byteCount))
    var header = try newHeader(ttl: ttl, locks: locks)
    if let time { header.updateTime = UInt64(clamping: time.seconds) }
    header.payloadSize = UInt64(payload.byteCount)
    if core.configuration.format == .checksummed { header.payloadChecksum = CRC32.checksum(of: payload) }
    let mayPack = core.mayPack(payloadOf: Int64(payload.byteCount))
    let ways = DraftAttempts(mayRecycle: true, canWriteAgain: true, mayPack: mayPack)
    return try unsafe payload.withUnsafeBytes { bytes in
      try unsafe publish(
        key, pendingStore(header, locks: locks, if: condition), extendedData: extendedData, ways, packing: bytes
      ) { file, header in
        try header.withEncodedBytes { head throws(FileError) in
          try unsafe file.write(head, RawSpan(_unsafeBytes: bytes))
        }
      }
    }
  }

  /// The header of a record that is stored now, without the fields that the payload decides.
  func newHeader(ttl: Duration?, locks: BlobStore.LockPolicy) throws -> RecordHeader {
    RecordHeader(
      refCount: locks.refCount(replacing: 0), ttl: try storedTimeToLive(ttl),
      updateTime: UInt64(clamping: core.configuration.now().seconds), payloadSize: 0)
  }
}

extension StoreCore {
  /// No file is longer than 2^63-1 bytes.
  private static let largestPayload = Int64.max - Int64(RecordHeader.byteCount)

  func checkSize(_ byteCount: Int64) throws(BlobStoreError) {
    guard byteCount <= configuration.limits.payload else {
      throw BlobStoreError(
        .payloadTooLarge,
        "a payload of at least \(byteCount) bytes is larger than the maximum of \(configuration.limits.payload)")
    }
    guard byteCount <= Self.largestPayload else {
      throw BlobStoreError(
        .payloadTooLarge, "no file holds a payload of \(byteCount) bytes: at most \(Self.largestPayload)")
    }
    if let limit = configuration.limits.size, byteCount > limit - Int64(RecordHeader.byteCount) {
      throw BlobStoreError(
        .payloadTooLarge,
        "a payload of at least \(byteCount) bytes does not fit into the size limit of \(limit)")
    }
  }
}
