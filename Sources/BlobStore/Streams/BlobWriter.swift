public import BlobRecord
internal import Posix
internal import SystemPackage

/// A blob that is stored in pieces: `BlobStore.openWriter`.
///
/// It holds no thread and no lock of the key between two calls. Its pieces lie in a temporary file, or in the record's
/// with `visibility: .whileWriting`. Either goes when the writer is dropped without a commit.
public struct BlobWriter: ~Copyable, Sendable {
  public let key: BlobKey
  /// The payload's size in bytes, if it was given.
  public var expectedSize: Int64? { expected.byteCount }
  private let expected: ExpectedSize
  /// Bytes of payload so far.
  public private(set) var byteCount: Int64 = 0
  /// Ends what it collects when it goes, so it stays.
  let store: BlobStore
  var locks: BlobStore.LockPolicy
  var header: RecordHeader
  /// The extension, which is written behind the payload in the end; nil for none.
  var tail: [UInt8]?
  var placed: PlacedDraft
  /// The blob as it is seen while it grows; nil while it is not seen.
  var visible: VisibleStream?
  /// nil where stores start no collections, and from the commit on.
  private var reservation: RoomReservation?
  private var checksum = CRC32()
  /// When the blob was stored, if that is not the time of the commit.
  var storedAt: UnixTime?
  /// The first, after which the blob is not whole any more.
  private var failure: BlobStoreError?

  init(
    _ store: BlobStore, for key: BlobKey, ttl: Duration?, locks: BlobStore.LockPolicy, expectedSize: Int64?,
    extendedData: Data?
  ) throws {
    let publisher = store.publisher
    var header = try publisher.newHeader(ttl: ttl, locks: locks)
    let path = try store.core.path(for: key)
    if store.core.configuration.format == .checksummed { header.keyDigest = path.digest }
    let tail = try store.core.newExtension(of: key, at: path, extendedData)?.encoded
    header.extensionEnd = tail.map { UInt32($0.count) }
    let expected = try ExpectedSize(expectedSize)
    if let expectedSize {
      try store.core.checkSize(expectedSize)
      header.payloadSize = UInt64(expectedSize)
    }
    let byteCount = header.fileByteCount
    let placed = try publisher.makeDraft(header, at: path, for: byteCount)
    var reservation = store.limitEnforcer.map { RoomReservation($0) }
    if let expectedSize, expectedSize > 0 {
      try publisher.waitForRoom(for: RecordSize(bytes: byteCount, isLocked: header.isLocked), placed)
      reservation?.reserve(byteCount)
      try publisher.makingRoom(for: byteCount, of: path.digest) { try placed.draft.file.reserve(byteCount: byteCount) }
      // The volume has less room from now on.
      store.limitEnforcer?.didStore(byteCount)
    }
    self.key = key
    self.expected = expected
    self.store = store
    self.locks = locks
    self.header = header
    self.tail = tail
    self.placed = placed
    self.reservation = reservation
  }

  deinit {
    if let visible { withdraw(visible) }
  }
}

// MARK: - Writing

extension BlobWriter {
  /// Adds bytes at the end of the payload.
  ///
  /// Each call writes to the file, so pieces of 64 KiB and more cost least. On a full volume it makes room as a store
  /// does, and may wait for a collection. After an error the payload has a gap: `commit` then throws the same error.
  ///
  /// - Throws: `sizeMismatch` beyond `expectedSize`, `payloadTooLarge`, `fileSystem`.
  /// - Complexity: O(*n*) for *n* bytes; one system call.
  public mutating func append(_ bytes: RawSpan) throws(BlobStoreError) {
    if let failure { throw failure }
    do {
      try write(bytes)
    } catch {
      let failure = BlobStoreError(error, operation: "store", key: key)
      self.failure = failure
      throw failure
    }
  }

  /// Adds bytes at the end of the payload.
  public mutating func append(_ bytes: Data) throws(BlobStoreError) {
    try append(bytes.bytes)
  }

  private mutating func write(_ bytes: RawSpan) throws {
    let core = store.core
    let total = byteCount.saturatingAdding(Int64(bytes.byteCount))
    try expected.checkGrowth(to: total, in: core)
    if core.configuration.format == .checksummed { checksum.update(bytes) }
    let offset = Int64(RecordHeader.byteCount) + byteCount
    try store.publisher.makingRoom(for: Int64(bytes.byteCount), of: placed.path.digest) {
      try placed.draft.file.write(bytes, at: offset)
    }
    byteCount = total
    if expectedSize == nil {
      reservation?.grow(to: total)
      store.limitEnforcer?.didStore(Int64(bytes.byteCount))
    }
    if let visible { core.streams.didGrow(visible.identity, to: byteCount) }
  }
}

// MARK: - Ending

extension BlobWriter {
  /// Puts the blob in its place, as a store does.
  ///
  /// Loads see it whole from then on. A commit that throws leaves the old blob as it was, and nothing of the new one. The
  /// exception is a sync that fails after the change. With `visibility: .whileWriting`, the old blob went when the writer
  /// was opened. What was stored or removed since then stays so: the commit throws `overtaken`.
  ///
  /// - Returns: the header of the new record.
  /// - Throws: the first error of `append`; `sizeMismatch` if the payload is shorter than `expectedSize`; what `store`
  ///   throws.
  @discardableResult
  public consuming func commit() throws(BlobStoreError) -> RecordHeader {
    do {
      return try publish(if: nil)
    } catch {
      throw BlobStoreError(error, operation: "store", key: key)
    }
  }

  /// Commits as `commit` does.
  ///
  /// - Parameters:
  ///   - replacingNothing: whether the record that the key has on disk has locks that are not to be kept.
  ///   - condition: must hold for the blob to take its place; a visible one has it already.
  /// - Returns: nil if the condition does not hold, and nothing was stored.
  package consuming func commit(
    replacingNothing: Bool, if condition: StoreCondition?
  ) throws(BlobStoreError) -> RecordHeader? {
    if replacingNothing { locks = locks.replacingNothing }
    do {
      return try publish(if: condition)
    } catch is ConditionFailed {
      return nil
    } catch {
      throw BlobStoreError(error, operation: "store", key: key)
    }
  }

  /// Whether the blob has its place already.
  package var isVisible: Bool { visible != nil }

  /// Gives the blob up. Nothing of it remains, as when the writer is dropped. Its followers get an error.
  public consuming func discard() {}

  private mutating func publish(if condition: StoreCondition?) throws -> RecordHeader {
    try complete()
    if let visible { return try complete(visible) }
    try header.withEncodedBytes { head throws(FileError) in try placed.draft.file.write(head, at: 0) }
    return try store.publisher.publish(&placed, header, locks: locks, if: condition).header
  }

  /// Completes the header, and writes what lies behind the payload.
  mutating func complete() throws {
    if let failure { throw failure }
    try expected.checkEnd(at: byteCount)
    let core = store.core
    // Threads that open a root at once have one each of the same directory.
    guard let open = try core.root.opened(), open.ownership.isSameDirectory(as: placed.root.ownership) else {
      throw BlobStoreError(
        .fileSystem, "the directory was replaced while the blob was written", path: core.root.path,
        errno: .noSuchFileOrDirectory)
    }
    header.payloadSize = UInt64(byteCount)
    if core.configuration.format == .checksummed { header.payloadChecksum = checksum.value }
    header.updateTime = UInt64(clamping: (storedAt ?? core.configuration.now()).seconds)
    if let tail {
      try sealStream()
      let offset = Int64(RecordHeader.byteCount) + byteCount
      try store.publisher.makingRoom(for: Int64(tail.count), of: placed.path.digest) {
        try placed.draft.file.write(unsafe tail.span.bytes, at: offset)
      }
    }
    // From here on, the record itself is counted.
    reservation = nil
  }
}

extension Publisher {
  /// Waits for the room that a record will need below the limit, before it is written.
  fileprivate func waitForRoom(for size: RecordSize, _ placed: borrowing PlacedDraft) throws {
    try enforcer?.waitForRoom(for: size) {
      do {
        return Predecessor(
          try core.records.recordToReplace(
            at: placed.path, in: placed.draft.subdirectory.directory, of: placed.root, by: RecordJudge()))?.size
      } catch {
        // The commit reports it.
        return nil
      }
    }
  }
}

extension BlobStore {
  /// Begins to store a blob whose payload arrives in pieces.
  ///
  /// Nothing is seen under the key before `BlobWriter.commit`, unless `visibility` says so. The pieces go to a temporary file at once, so the writer
  /// needs the same memory for a payload of any size. A process that dies leaves that file to the next collection. The key
  /// is held at the commit alone, so any number of writers may be open, also for one key. The last to commit wins.
  ///
  /// System calls: openat, flock, fstat, and fallocate where the size is known.
  ///
  /// - Parameters:
  ///   - key: the key of the record.
  ///   - ttl: the time to live, counted from the commit; as for `store`.
  ///   - locks: the locks of the new record; as for `store`.
  ///   - expectedSize: the payload's size in bytes, where it is known. Its blocks are set aside at once where the file
  ///     system can. More bytes are refused, and so is a commit with fewer.
  ///   - extendedData: what lies beside the payload; as for `store`.
  ///   - visibility: `whileWriting` puts the blob in its place at once, and followers read it while it grows.
  /// - Throws: `invalidKey`, `invalidTimeToLive`, `payloadTooLarge`, `sizeMismatch` for a size below zero,
  ///   `extendedDataTooLarge`, `extendedDataRefused`, `fileSystem`.
  public func openWriter(
    for key: BlobKey, ttl: Duration? = nil, locks: LockPolicy = .none, expectedSize: Int64? = nil,
    extendedData: Data? = nil, visibility: Visibility = .afterCommit
  ) throws(BlobStoreError) -> BlobWriter {
    try withErrorContext("store", key) {
      var writer = try BlobWriter(
        self, for: key, ttl: ttl, locks: locks, expectedSize: expectedSize, extendedData: extendedData)
      if visibility == .whileWriting { try writer.becomeVisible() }
      return writer
    }
  }
}

/// The size that a payload must have, where that is known.
struct ExpectedSize: Sendable {
  let byteCount: Int64?

  /// - Throws: `sizeMismatch` for a size below zero.
  init(_ byteCount: Int64?) throws(BlobStoreError) {
    if let byteCount, byteCount < 0 {
      throw BlobStoreError(.sizeMismatch, "an expected size of \(byteCount) bytes is below zero")
    }
    self.byteCount = byteCount
  }

  /// Checks a payload that has become larger.
  ///
  /// - Throws: `sizeMismatch`; `payloadTooLarge`.
  func checkGrowth(to total: Int64, in core: StoreCore) throws(BlobStoreError) {
    if let byteCount, total > byteCount { throw mismatch(found: "at least \(total)", byteCount) }
    try core.checkSize(total)
  }

  /// Checks a payload that has come to its end.
  ///
  /// - Throws: `sizeMismatch`.
  func checkEnd(at total: Int64) throws(BlobStoreError) {
    if let byteCount, total != byteCount { throw mismatch(found: "\(total)", byteCount) }
  }

  private func mismatch(found: String, _ byteCount: Int64) -> BlobStoreError {
    BlobStoreError(.sizeMismatch, "\(found) bytes arrived where \(byteCount) were expected")
  }
}
