public import BlobRecord
public import BlobStore
internal import Locks
public import SystemPackage

extension BlobCache {
  /// Returns an asynchronous sequence of the directory's records with their headers, in no particular order.
  ///
  /// Staged blobs are written first. Records are not touched, and payloads are not read. Records are read on demand,
  /// 64 at a time, so memory does not grow with their number; two directories are open in the meantime. Records
  /// stored or removed during the enumeration may or may not be included.
  ///
  /// - Parameter prefix: The prefix of the keys.
  /// - Complexity: Four system calls for each record.
  public func records(prefix: String = "") -> Records {
    Records(cache: self, prefix: prefix)
  }

  /// Returns a page of records and the position after it, like `BlobStore.page`, after staged blobs are written.
  package func page(
    prefix: String, from start: WalkPosition, limit: Int, where isWanted: @escaping @Sendable (RecordEntry) -> Bool
  ) async throws -> RecordPage {
    let engine = try openEngine()
    return try await engine.lanes.scans.run { _ in
      try engine.flushStaged()
      return try engine.store.page(prefix: prefix, from: start, limit: limit, where: isWanted)
    }
  }

  /// Returns the position after about this share of the records, like `BlobStore.position(atShare:)`.
  package func position(atShare share: Double) async throws -> WalkPosition {
    let engine = try openEngine()
    return try await engine.lanes.scans.run { _ in try engine.store.position(atShare: share) }
  }

  /// Returns how often each record was recently used, like `BlobStore.useCounts`, or `nil` if uses are not counted.
  package func useCounts(of entries: [RecordEntry]) throws -> [Int]? {
    try openEngine().store.useCounts(of: entries)
  }

  /// Returns the details of a record file in the directory, like `BlobStore.inspectRecord(inFile:)`, or `nil` if no file
  /// exists; payloads above `byteCount` are not checked.
  package func inspectRecord(
    inFile path: FilePath, checkingUpTo byteCount: UInt64
  ) async throws -> RecordInspection? {
    let engine = try openEngine()
    return try await engine.lanes.scans.run { _ in
      try engine.store.inspectRecord(inFile: path, checkingUpTo: byteCount)
    }
  }

  /// Returns the details of a key's record, like `BlobStore.inspectRecord`, or `nil` if no record exists.
  package func inspectRecord(
    of key: BlobKey, checkingUpTo byteCount: UInt64
  ) async throws -> RecordInspection? {
    let engine = try openEngine()
    return try await engine.lanes.scans.run { _ in
      try engine.store.inspectRecord(of: key, checkingUpTo: byteCount)
    }
  }

  /// Returns the details of an enumerated record, or `nil` if it no longer exists.
  package func inspect(_ entry: RecordEntry, checkingUpTo byteCount: UInt64) async throws -> RecordInspection? {
    let engine = try openEngine()
    return try await engine.lanes.scans.run { _ in try engine.store.inspect(entry, checkingUpTo: byteCount) }
  }

  /// The records of a directory, with a separate enumeration for each iterator.
  public struct Records: AsyncSequence, Sendable {
    fileprivate let cache: BlobCache
    fileprivate let prefix: String

    public func makeAsyncIterator() -> Iterator { Iterator(cache: cache, prefix: prefix) }

    public struct Iterator: AsyncIteratorProtocol {
      fileprivate let cache: BlobCache
      fileprivate let prefix: String
      private var cursor: RecordCursor?
      private var batch: ArraySlice<RecordEntry> = []

      fileprivate init(cache: BlobCache, prefix: String) {
        self.cache = cache
        self.prefix = prefix
      }

      /// - Throws: `CancellationError`, `writeFailed`, `closed`, and the errors of `BlobStore.records`.
      public mutating func next() async throws -> RecordEntry? {
        if let entry = batch.popFirst() { return entry }
        let engine = try cache.openEngine()
        let cursor = self.cursor ?? RecordCursor()
        self.cursor = cursor
        batch = try await engine.lanes.scans.run { [prefix] _ in try cursor.nextBatch(of: engine, prefix: prefix) }[...]
        return batch.popFirst()
      }
    }
  }
}

private final class RecordCursor: Sendable {
  private struct State: ~Copyable {
    var next: (() -> RecordEntry?)?
  }

  /// Some hundred microseconds of work: enough to outweigh the switch to a thread, and short for other callers.
  private static let batchSize = 64

  private let state = Lock(State(next: nil), rank: .listing)

  func nextBatch(of engine: CacheEngine, prefix: String) throws -> [RecordEntry] {
    try state.withLock { state in
      if state.next == nil {
        try engine.flushStaged()
        var iterator = try engine.store.records(prefix: prefix).makeIterator()
        state.next = { iterator.next() }
      }
      var batch: [RecordEntry] = []
      while batch.count < Self.batchSize, let entry = state.next?() { batch.append(entry) }
      return batch
    }
  }
}

// Access to records as files, for programs that pass them to code that reads files.
extension BlobCache {
  /// Returns the path at which the record of a key is or would be stored: a header of 64 bytes, then the payload.
  ///
  /// The method does not access the disk: the record may be missing, expired or staged. A packed record has no file;
  /// `withExclusiveAccess(to:_:)` creates one, `export(_:to:touching:)` writes the payload to another place, and
  /// `store.packing` set to `.off` disables packs.
  ///
  /// - Throws: `invalidKey` or `closed`.
  public func filePath(for key: BlobKey) throws -> FilePath {
    try openEngine().store.filePath(for: key)
  }

  /// Calls a closure while no other thread or process can change a key's record.
  ///
  /// Others cannot store, touch, lock, unlock, remove or collect it: they wait for at most their `lockTimeout` and
  /// then throw `busy`. Loads do not wait. A staged blob of the key is written first, and a packed record is
  /// permanently moved to a file. The closure may read the file, link to it and set extended attributes. It must not
  /// write to the file, and must not change anything through the cache, which would deadlock.
  ///
  /// - Parameters:
  ///   - key: The key of the record.
  ///   - body: Receives `filePath(for:)`, whose record may be missing, on a thread of the cache; it may block.
  /// - Throws: Errors of `body`, `busy` if others change the key for `lockTimeout`, and the errors of `touch`.
  public func withExclusiveAccess<Result: Sendable>(
    to key: BlobKey, _ body: @escaping @Sendable (FilePath) throws -> Result
  ) async throws -> Result {
    let engine = try openEngine()
    return try await withSpan("withExclusiveAccess", key) {
      try await engine.lanes.writes.run { _ in try engine.withExclusiveAccess(to: key, body) }
    }
  }
}
