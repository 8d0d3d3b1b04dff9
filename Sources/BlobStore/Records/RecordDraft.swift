internal import BlobRecord
internal import Posix
internal import Synchronization

/// A store operation from its call until the publication of its record, in either engine.
struct PendingStore: ~Copyable {
  var header: RecordHeader
  /// The requested lock count, without the locks of the replaced record.
  private let askedRefCount: UInt32
  let locks: BlobStore.LockPolicy
  var condition: StoreCondition?
  /// `nil` if stores start no collections.
  let limit: StoreLimit?
  /// `nil` unless the store waits for room. The closure is called when room is available, before the store is counted.
  var stopWaiting: (() -> Void)?

  init(_ header: RecordHeader, locks: BlobStore.LockPolicy, if condition: StoreCondition?, within limit: StoreLimit?) {
    self.header = header
    self.locks = locks
    self.condition = condition
    self.limit = limit
    askedRefCount = header.refCount
  }

  var hasLocksAsAsked: Bool { header.refCount == askedRefCount }

  mutating func forgetKeptLocks() { header.refCount = askedRefCount }

  var isStream: Bool { header.flags.contains(.streamIncomplete) }

  var size: RecordSize {
    isStream ? .stream : RecordSize(bytes: header.fileByteCount, isLocked: header.isLocked)
  }
}

/// A record that is ready for publication: a written file, or bytes that will be written into a pack.
///
/// `KeyTransaction` calls these functions while it holds the key.
protocol RecordDraft: ~Copyable {
  /// A Boolean value that indicates whether the draft can wait for room. Otherwise, it is made again after the wait.
  static var canWait: Bool { get }

  /// Syncs the draft, as far as the level requires it, before the key is held. After a failure the draft is discarded
  /// and never synced again.
  mutating func prepare(_ level: BlobStore.Durability.Level) throws

  /// Moves the draft to another path of its key, because the places have changed since the draft was created.
  mutating func move(to path: RecordPath, in open: OpenRoot) throws

  /// Returns the durability of a commit without a lookup of the name, or `nil` if the name must be looked up first.
  func levelWithoutLookup(
    _ pending: borrowing PendingStore, _ transaction: borrowing KeyTransaction
  ) throws -> BlobStore.Durability.Level?

  /// Returns the replaced record, or `nil` if none exists. Throws `foreignFile` for a file that must not be replaced.
  func predecessor(_ transaction: borrowing KeyTransaction, by judge: RecordJudge) throws -> FoundRecord?

  mutating func rewrite(_ header: RecordHeader) throws

  /// Returns `false` if the draft must be synced for this level before publication, while the key is released.
  mutating func isReady(for level: BlobStore.Durability.Level, _ header: RecordHeader) throws -> Bool

  /// Publishes the draft, which is already counted.
  ///
  /// - Parameter found: The replaced record, or `nil` to publish the draft only if its name is free.
  /// - Returns: `false` if the name is taken, or the file system cannot determine that it is free.
  /// - Throws: `Published` if the draft was published despite the error.
  mutating func commit(
    _ header: RecordHeader, over found: borrowing FoundRecord?, _ before: Predecessor?, isSureOfName: Bool,
    _ level: BlobStore.Durability.Level, _ transaction: inout KeyTransaction
  ) throws -> Bool

  /// Removes the record that the draft has published under the same hold.
  mutating func withdraw(
    _ size: RecordSize, _ level: BlobStore.Durability.Level, _ transaction: inout KeyTransaction) throws

  /// Performs the remaining steps after the key is released. Throws `Published`.
  mutating func finish(_ level: BlobStore.Durability.Level, at path: RecordPath, of open: OpenRoot) throws
}

extension FileDraft: RecordDraft {
  static var canWait: Bool { true }

  mutating func prepare(_ level: BlobStore.Durability.Level) throws { try makeDurable(level) }

  mutating func move(to path: RecordPath, in open: OpenRoot) throws {
    // The data of a stream cannot be written again if a collection removes the empty subdirectory.
    var triesLeft = OpenRoot.removalsOutlasted
    while true {
      do {
        return try move(to: open.madeSubdirectory(path.subdirectory))
      } catch let error as FileError {
        guard error.errno == .noSuchFileOrDirectory, triesLeft > 0 else { throw error }
        triesLeft -= 1
        open.forgetSubdirectory(path.subdirectory)
      }
    }
  }

  /// A lookup wastes a system call for a new key, and an attempt without a lookup wastes one for an existing key. A new
  /// file always attempts it; a recycled file does so if the last store replaced no record, unless the store keeps
  /// locks: it may have to rewrite its header after the attempt, and a recycled file must not be written then.
  func levelWithoutLookup(
    _ pending: borrowing PendingStore, _ transaction: borrowing KeyTransaction
  ) throws -> BlobStore.Durability.Level? {
    if isRecycled {
      let isLikely = !transaction.core.lastStoreReplaced.load(ordering: .relaxed)
      guard !pending.locks.keepsLocks, isLikely, isStillSafe else { return nil }
    }
    guard try !transaction.records.mayBePacked(transaction.path, of: transaction.open) else { return nil }
    return max(transaction.level(concernsLock: pending.header.isLocked), syncedLevel)
  }

  func predecessor(_ transaction: borrowing KeyTransaction, by judge: RecordJudge) throws -> FoundRecord? {
    let found = try transaction.records.recordToReplace(
      at: transaction.path, in: subdirectory.directory, of: transaction.open, by: judge)
    transaction.core.lastStoreReplaced.store(found != nil, ordering: .relaxed)
    return found
  }

  mutating func rewrite(_ header: RecordHeader) throws {
    try header.withEncodedBytes { head throws(FileError) in try file.write(head, at: 0) }
    wasWritten()
  }

  mutating func isReady(for level: BlobStore.Durability.Level, _ header: RecordHeader) throws -> Bool {
    if isRecycled, level > .none || header.isLocked || !isStillSafe { throw UnfitForRecycling() }
    guard level > syncedLevel else { return true }
    guard syncCount >= Self.syncsBesideOthers else { return false }
    try makeDurable(level)
    return true
  }

  /// The number of syncs of a record while the locks of the replaced record change concurrently. After that, the
  /// record is synced while the key is held; otherwise, a store concurrent with endless changes would never end.
  private static var syncsBesideOthers: Int { 3 }

  mutating func commit(
    _ header: RecordHeader, over found: borrowing FoundRecord?, _ before: Predecessor?, isSureOfName: Bool,
    _ level: BlobStore.Durability.Level, _ transaction: inout KeyTransaction
  ) throws -> Bool {
    try transaction.records.commit(
      &self, as: transaction.path, replacing: found, isSureOfName: isSureOfName, level, of: transaction.open,
      &transaction.hold)
  }

  mutating func withdraw(
    _ size: RecordSize, _ level: BlobStore.Durability.Level, _ transaction: inout KeyTransaction
  ) throws {
    try transaction.records.withdraw(transaction.path, size, level, in: subdirectory.directory, &transaction.hold)
  }

  mutating func finish(_ level: BlobStore.Durability.Level, at path: RecordPath, of open: OpenRoot) throws {
    if level == .full { try afterPublication { try synchronizeName(at: path, of: open) } }
  }

  borrowing func synchronizeName(at path: RecordPath, of open: OpenRoot) throws(FileError) {
    try subdirectory.directory.synchronize()
    if !path.subdirectory.isEmpty { try open.directory.synchronize() }
  }
}
