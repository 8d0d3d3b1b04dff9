internal import BlobRecord
internal import Posix
internal import Synchronization

/// A store on its way from its caller to the place of its record, whichever engine has that.
struct PendingStore: ~Copyable {
  var header: RecordHeader
  /// Of the header as it was asked for: without the locks of the record that is replaced.
  private let askedRefCount: UInt32
  let locks: BlobStore.LockPolicy
  /// Must hold for anything to be stored.
  var condition: StoreCondition?
  /// nil where stores start no collections.
  let limit: StoreLimit?
  /// nil unless the store waits for room. Called when it has found room, just before it is counted.
  var stopWaiting: (() -> Void)?

  init(_ header: RecordHeader, locks: BlobStore.LockPolicy, if condition: StoreCondition?, within limit: StoreLimit?) {
    self.header = header
    self.locks = locks
    self.condition = condition
    self.limit = limit
    askedRefCount = header.refCount
  }

  /// Whether no lock of a record that is replaced has come to it.
  var hasLocksAsAsked: Bool { header.refCount == askedRefCount }

  /// Forgets the locks of a record that an earlier try would have replaced.
  mutating func forgetKeptLocks() { header.refCount = askedRefCount }

  /// Whether the payload comes later.
  var isStream: Bool { header.flags.contains(.streamIncomplete) }

  var size: RecordSize {
    isStream ? .stream : RecordSize(bytes: header.fileByteCount, isLocked: header.isLocked)
  }
}

/// A record that is about to take its place: a file that is written, or bytes that will be written into a pack.
///
/// `KeyTransaction` calls these functions, each while it holds the key.
protocol RecordDraft: ~Copyable {
  /// Whether it can wait for room as it is; else it is made anew after the wait.
  static var canWait: Bool { get }

  /// How durably it is on the medium by now.
  var syncedLevel: BlobStore.Durability.Level { get }

  /// Brings it to the medium, as far as the level asks for that, before the key is held. After a failure it is given up, never
  /// synced again.
  mutating func prepare(_ level: BlobStore.Durability.Level) throws

  /// Whether it may try to take its place before a lookup of what is there.
  func mayTryWithoutLookup(_ pending: borrowing PendingStore, _ transaction: borrowing KeyTransaction) throws -> Bool

  /// The record that it replaces; nil for none.
  ///
  /// - Throws: `foreignFile` if the file there is not the cache's, and so must not be replaced.
  func predecessor(_ transaction: borrowing KeyTransaction, by judge: RecordJudge) throws -> FoundRecord?

  /// Takes another header, with other locks.
  mutating func rewrite(_ header: RecordHeader) throws

  /// Whether it may be published as durably as that.
  ///
  /// - Returns: false if it has to be synced first, while the key is free.
  mutating func isReady(for level: BlobStore.Durability.Level, _ header: RecordHeader) throws -> Bool

  /// Takes its place. The record is counted already.
  ///
  /// - Parameters:
  ///   - found: the record that it replaces; nil to take the name only if that is free.
  ///   - before: the facts of that record.
  ///   - isSureOfName: whether the name was looked up.
  /// - Returns: false if something has the name, or the file system cannot tell.
  /// - Throws: `Published` if it has its place all the same.
  mutating func commit(
    _ header: RecordHeader, over found: borrowing FoundRecord?, _ before: Predecessor?, isSureOfName: Bool,
    _ level: BlobStore.Durability.Level, _ transaction: inout KeyTransaction
  ) throws -> Bool

  /// Gives its place up, which it has taken under the same hold.
  mutating func withdraw(
    _ size: RecordSize, _ level: BlobStore.Durability.Level, _ transaction: inout KeyTransaction) throws

  /// Does what is left to do once the key is free.
  ///
  /// - Throws: `Published`.
  mutating func finish(_ level: BlobStore.Durability.Level, at path: RecordPath, of open: OpenRoot) throws
}

extension FileDraft: RecordDraft {
  static var canWait: Bool { true }

  mutating func prepare(_ level: BlobStore.Durability.Level) throws { try makeDurable(level) }

  /// Looking first wastes a call for new keys, trying first one for replaced keys. So a new file tries, and a recycled one guesses
  /// from the last store. Nothing may write to a recycled file once it has tried, and a store that keeps locks may have to.
  func mayTryWithoutLookup(_ pending: borrowing PendingStore, _ transaction: borrowing KeyTransaction) throws -> Bool {
    if isRecycled {
      let isLikely = !transaction.core.lastStoreReplaced.load(ordering: .relaxed)
      guard !pending.locks.keepsLocks, isLikely, isStillSafe else { return false }
    }
    return try !transaction.records.mayBePacked(transaction.path, of: transaction.open)
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

  /// How often a record is written and synced while others lock and unlock the one it replaces. After that the others wait for
  /// it. Otherwise a store beside endless changes would never end.
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
    guard level == .full else { return }
    do throws(FileError) {
      try synchronizeName(at: path, of: open)
    } catch {
      throw Published(cause: error)
    }
  }

  /// Puts the name of the record on the medium.
  borrowing func synchronizeName(at path: RecordPath, of open: OpenRoot) throws(FileError) {
    try subdirectory.directory.synchronize()
    if !path.subdirectory.isEmpty { try open.directory.synchronize() }
  }
}
