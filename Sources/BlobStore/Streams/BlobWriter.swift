public import BlobRecord
internal import Posix
internal import SystemPackage

/// A blob that is stored in pieces; see `BlobStore.openWriter`.
///
/// Between two calls, a writer holds neither a thread nor a lock of the key. Its pieces are stored in a temporary
/// file, or in the record's file with `visibility: .whileWriting`. The file is removed if the writer is destroyed
/// without a commit.
public struct BlobWriter: ~Copyable, Sendable {
  public let key: BlobKey
  /// The payload's size in bytes, if it was specified.
  public var expectedSize: Int64? { expected.byteCount }
  private let expected: ExpectedSize
  /// The number of payload bytes that have been appended.
  public private(set) var byteCount: Int64 = 0
  /// Retained, because a store that is released ends its collections.
  let store: BlobStore
  var locks: BlobStore.LockPolicy
  var header: RecordHeader
  /// The extension, which is written after the payload at the end, or `nil` if the blob has no extension.
  var tail: [UInt8]?
  var placed: PlacedDraft
  /// `nil` while the blob is not visible.
  var visible: VisibleStream?
  /// `nil` if stores start no collections, and after the commit.
  private var reservation: RoomReservation?
  private var checksum = CRC32()
  /// The time at which the blob was stored, if it differs from the time of the commit.
  var storedAt: UnixTime?
  /// The first error, after which the blob is incomplete.
  private var failure: BlobStoreError?

  init(
    _ store: BlobStore, for key: BlobKey, ttl: Duration?, locks: BlobStore.LockPolicy, expectedSize: Int64?,
    extendedData: Data?
  ) throws {
    if let expectedSize { try Records(store.core).checkSize(expectedSize) }
    let publisher = store.publisher
    var header = try publisher.newHeader(ttl: ttl, locks: locks)
    let path = try store.core.path(for: key)
    if store.core.configuration.format == .checksummed { header.keyDigest = path.digest }
    let tail = try Records(store.core).newExtension(of: key, at: path, extendedData)?.encoded
    header.extensionEnd = tail.map { UInt32($0.count) }
    let expected = try ExpectedSize(expectedSize)
    if let expectedSize { header.payloadSize = UInt64(expectedSize) }
    let byteCount = header.fileByteCount
    let placed = try publisher.makeDraft(header, at: path, for: byteCount)
    var reservation = store.limitEnforcer.map { RoomReservation($0) }
    if let expectedSize, expectedSize > 0 {
      try publisher.waitForRoom(for: RecordSize(bytes: byteCount, isLocked: header.isLocked), placed)
      reservation?.reserve(byteCount)
      try publisher.makingRoom(for: byteCount, of: path.digest) { try placed.draft.file.reserve(byteCount: byteCount) }
      // The volume has less space from now on.
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
  /// Appends bytes to the payload.
  ///
  /// Each call writes to the file, so pieces of 64 KiB or more are most efficient. On a full volume this method makes
  /// room like a store, and may wait for a collection. After an error the payload has a gap, so `commit` throws the
  /// same error.
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

  /// Appends bytes to the payload.
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
  /// Publishes the blob, like a store.
  ///
  /// From then on, loads return the complete blob. If this method throws, the old blob is unchanged and nothing of the
  /// new one remains, except if a sync fails after the change. With `visibility: .whileWriting`, opening the writer
  /// has already replaced the old blob. A store or removal of the key since then supersedes this blob, and this method
  /// throws `superseded`.
  ///
  /// - Returns: The header of the new record.
  /// - Throws: The first error of `append`; `sizeMismatch` if the payload is shorter than `expectedSize`; the errors
  ///   of `store`.
  @discardableResult
  public consuming func commit() throws(BlobStoreError) -> RecordHeader {
    do {
      return try publish(if: nil)
    } catch {
      throw BlobStoreError(error, operation: "store", key: key)
    }
  }

  /// Commits under a condition, which a visible blob ignores. Returns `nil`, with nothing stored, if it does not hold.
  /// If `replacingNothing`, the locks of the existing record are not inherited.
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

  package var isVisible: Bool { visible != nil }

  /// Discards the blob completely, like the destruction of the writer.
  ///
  /// Followers of the blob get an error.
  public consuming func discard() {}

  private mutating func publish(if condition: StoreCondition?) throws -> RecordHeader {
    try complete()
    if let visible { return try complete(visible) }
    try header.withEncodedBytes { head throws(FileError) in try placed.draft.file.write(head, at: 0) }
    return try store.publisher.publish(&placed, header, locks: locks, if: condition).header
  }

  /// Completes the header, and writes the extension after the payload.
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
    // The record itself is counted from here on.
    reservation = nil
  }
}

extension Publisher {
  /// Waits for the room that a record needs below the limit, before it is written.
  fileprivate func waitForRoom(for size: RecordSize, _ placed: borrowing PlacedDraft) throws {
    try enforcer?.waitForRoom(for: size) {
      do {
        // A packed record whose subdirectory is missing is not found. It is small, so its size hardly affects the wait.
        let found = try core.lookUpInSubdirectory(of: placed.path, placed.root) { directory in
          try Records(core).recordToReplace(at: placed.path, in: directory, of: placed.root, by: RecordJudge())
        }
        return Predecessor(found)?.size
      } catch {
        // The commit reports the error.
        return nil
      }
    }
  }
}

extension BlobStore {
  /// Starts storing a blob whose payload arrives in pieces.
  ///
  /// With the default visibility, the blob is invisible until `BlobWriter.commit`. The pieces are written to a
  /// temporary file immediately, so the memory does not depend on the payload's size. If the process dies, the next
  /// collection removes the file. The key is held only during the commit, so any number of writers can be open, even
  /// for the same key. The last commit wins.
  ///
  /// System calls: openat, flock, fstat, and fallocate if the size is known.
  ///
  /// - Parameters:
  ///   - key: The key of the record.
  ///   - ttl: The time to live from the commit on, like for `store`.
  ///   - locks: The locks of the new record, like for `store`.
  ///   - expectedSize: The payload's size in bytes, if known. Its blocks are reserved immediately if the file system
  ///     supports it. More bytes are refused, and so is a commit with fewer.
  ///   - extendedData: The extended data, like for `store`.
  ///   - visibility: The visibility of the blob. With `whileWriting`, the blob is published immediately, and followers
  ///     read it while it grows.
  /// - Returns: A writer for the blob.
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

struct ExpectedSize: Sendable {
  let byteCount: Int64?

  init(_ byteCount: Int64?) throws(BlobStoreError) {
    if let byteCount, byteCount < 0 {
      throw BlobStoreError(.sizeMismatch, "an expected size of \(byteCount) bytes is below zero")
    }
    self.byteCount = byteCount
  }

  /// Checks a growing payload. Throws `sizeMismatch` or `payloadTooLarge`.
  func checkGrowth(to total: Int64, in core: StoreCore) throws(BlobStoreError) {
    if let byteCount, total > byteCount { throw mismatch(found: "at least \(total)", byteCount) }
    try Records(core).checkSize(total)
  }

  /// Checks a complete payload. Throws `sizeMismatch`.
  func checkEnd(at total: Int64) throws(BlobStoreError) {
    if let byteCount, total != byteCount { throw mismatch(found: "\(total)", byteCount) }
  }

  private func mismatch(found: String, _ byteCount: Int64) -> BlobStoreError {
    BlobStoreError(.sizeMismatch, "\(found) bytes arrived where \(byteCount) were expected")
  }
}
