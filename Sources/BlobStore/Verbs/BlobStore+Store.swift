public import BlobRecord
internal import Posix

extension BlobStore {
  /// Stores a blob, and replaces the existing blob of the key.
  ///
  /// Readers see either the old blob or the new one, whole. A store that throws does not change the old blob, except
  /// if a sync fails after the change: the new blob is then in place, but may not be on the medium.
  ///
  /// System calls: Spec/Performance.md 1.
  ///
  /// - Parameters:
  ///   - payload: The bytes to store.
  ///   - key: The key of the record.
  ///   - ttl: The time to live, rounded up to seconds, or `nil` for the default expiration, from the last access.
  ///   - locks: The locks of the new record: none, one, or the old record's locks.
  ///   - extendedData: Additional data of at most 4 KiB, such as a content type. It replaces the old data.
  /// - Throws: `invalidKey`, `invalidTimeToLive`, `payloadTooLarge`, `extendedDataTooLarge`, `extendedDataRefused`,
  ///   `foreignFile`, `fileSystem`.
  public func store(
    _ payload: Data, for key: BlobKey, ttl: Duration? = nil, locks: LockPolicy = .none,
    extendedData: Data? = nil
  ) throws(BlobStoreError) {
    try store(payload.bytes, for: key, ttl: ttl, locks: locks, extendedData: extendedData)
  }

  /// Stores bytes in memory without copying them.
  public func store(
    _ payload: RawSpan, for key: BlobKey, ttl: Duration? = nil, locks: LockPolicy = .none,
    extendedData: Data? = nil
  ) throws(BlobStoreError) {
    try withErrorContext("store", key) {
      _ = try publisher.publish(payload, extendedData, for: key, ttl: ttl, locks: locks, if: nil)
    }
  }

  /// Stores blobs in order, with one system call for up to 256 small blobs that are packed.
  ///
  /// Readers may see some of the blobs before others, and a failure does not affect the other blobs. If two blobs
  /// have the same key, the later one is kept.
  ///
  /// - Parameters:
  ///   - blobs: The payloads and their keys.
  ///   - ttl: The time to live, as in a single store.
  ///   - locks: The locks of the new records, as in a single store.
  /// - Returns: The result of each store, in the order of the blobs.
  /// - Complexity: O(*n*) for *n* bytes. 256 packed blobs take one system call, and one sync if durable.
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

  /// Stores a blob, whose time to live starts at `time` or now, unless the condition fails at the moment of
  /// publication.
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
  fileprivate func publish(
    _ payload: RawSpan, _ extendedData: Data?, for key: BlobKey, ttl: Duration?, locks: BlobStore.LockPolicy,
    at time: UnixTime? = nil, if condition: StoreCondition?
  ) throws -> StoreReceipt {
    try Records(core).checkSize(Int64(payload.byteCount))
    var header = try newHeader(ttl: ttl, locks: locks)
    if let time { header.updateTime = UInt64(clamping: time.seconds) }
    header.payloadSize = UInt64(payload.byteCount)
    if core.configuration.format == .checksummed { header.payloadChecksum = CRC32.checksum(of: payload) }
    let mayPack = Records(core).mayPack(payloadOf: Int64(payload.byteCount))
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

  /// Returns the header of a record that is stored now, without the fields that depend on the payload.
  func newHeader(ttl: Duration?, locks: BlobStore.LockPolicy) throws -> RecordHeader {
    RecordHeader(
      refCount: locks.refCount(replacing: 0), ttl: try storedTimeToLive(ttl),
      updateTime: UInt64(clamping: core.configuration.now().seconds), payloadSize: 0)
  }
}

extension Records {
  /// The largest payload of a file, because no file is longer than 2^63-1 bytes.
  private static let largestPayload = Int64.max - Int64(RecordHeader.byteCount)

  func checkSize(_ byteCount: Int64) throws(BlobStoreError) {
    guard byteCount <= core.configuration.limits.payload else {
      throw BlobStoreError(
        .payloadTooLarge,
        "a payload of at least \(byteCount) bytes is larger than the maximum of \(core.configuration.limits.payload)")
    }
    guard byteCount <= Self.largestPayload else {
      throw BlobStoreError(
        .payloadTooLarge, "no file holds a payload of \(byteCount) bytes: at most \(Self.largestPayload)")
    }
    if let limit = core.configuration.limits.size, byteCount > limit - Int64(RecordHeader.byteCount) {
      throw BlobStoreError(
        .payloadTooLarge,
        "a payload of at least \(byteCount) bytes does not fit into the size limit of \(limit)")
    }
  }
}
