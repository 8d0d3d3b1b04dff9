public import BlobRecord
public import BlobStore
internal import Locks
public import SystemPackage

extension BlobCache {
  /// The records of the directory with their headers, in no order; none is touched.
  ///
  /// Staged blobs are written first. Payloads are not read.
  ///
  /// Records are read as they are asked for, 64 at a time, so memory does not grow with their number. Two directories
  /// are open meanwhile. Records stored or removed during the enumeration may or may not be met.
  ///
  /// - Parameter prefix: what the keys begin with.
  /// - Complexity: four system calls a record.
  public func records(prefix: String = "") -> Records {
    Records(cache: self, prefix: prefix)
  }

  /// Some of the records, and where the others begin, as `BlobStore.page`. Staged blobs are written first.
  ///
  /// - Throws: as `BlobStore.page`; `CancellationError` while it waits for a thread; `writeFailed`; `closed`.
  package func page(
    prefix: String, from start: WalkPosition, limit: Int, where isWanted: @escaping @Sendable (RecordEntry) -> Bool
  ) async throws -> RecordPage {
    let engine = try openEngine()
    return try await engine.lanes.scans.run { _ in
      try engine.flushStaged()
      return try engine.store.page(prefix: prefix, from: start, limit: limit, where: isWanted)
    }
  }

  /// Where a walk has met about this share of the records, as `BlobStore.position(atShare:)`.
  package func position(atShare share: Double) async throws -> WalkPosition {
    let engine = try openEngine()
    return try await engine.lanes.scans.run { _ in try engine.store.position(atShare: share) }
  }

  /// About how often each of some records was used lately, as `BlobStore.useCounts`; nil where no uses are counted.
  package func useCounts(of entries: [RecordEntry]) throws -> [Int]? {
    try openEngine().store.useCounts(of: entries)
  }

  /// A record file in detail, as `BlobStore.inspect`. Staged blobs are not there yet.
  ///
  /// - Parameters:
  ///   - path: the record's file.
  ///   - byteCount: a larger payload is not compared with its checksum.
  /// - Throws: as `BlobStore.inspect`; `CancellationError` while it waits for a thread; `closed`.
  package func inspect(_ path: FilePath, checkingUpTo byteCount: UInt64) async throws -> RecordInspection {
    let engine = try openEngine()
    return try await engine.lanes.scans.run { _ in try engine.store.inspect(path, checkingUpTo: byteCount) }
  }

  /// The record of a key in detail, as `BlobStore.inspectRecord`, else as `inspect`.
  ///
  /// - Returns: nil if there is none.
  package func inspectRecord(
    of key: BlobKey, checkingUpTo byteCount: UInt64
  ) async throws -> RecordInspection? {
    let engine = try openEngine()
    return try await engine.lanes.scans.run { _ in
      try engine.store.inspectRecord(of: key, checkingUpTo: byteCount)
    }
  }

  /// A record that an enumeration has met in detail, else as `inspect`.
  ///
  /// - Returns: nil if it is there no more.
  package func inspect(_ entry: RecordEntry, checkingUpTo byteCount: UInt64) async throws -> RecordInspection? {
    let engine = try openEngine()
    return try await engine.lanes.scans.run { _ in try engine.store.inspect(entry, checkingUpTo: byteCount) }
  }

  /// The records of a directory, one enumeration for each iterator.
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

      /// - Throws: as `BlobStore.records`; `CancellationError`; `writeFailed`; `closed`.
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

/// Where an enumeration stands between its batches.
private final class RecordCursor: Sendable {
  private struct State: ~Copyable {
    var next: (() -> RecordEntry?)?
  }

  /// Some hundred microseconds' worth: a hop costs little beside it, and others get their turn.
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

// Records as files, for programs that hand them to readers of files.
extension BlobCache {
  /// Where the record of a key lies or would lie as a file: a header of 64 bytes, then the payload.
  ///
  /// The record may be missing or expired, and a staged blob is not there yet. A packed record has no file:
  /// `withExclusiveAccess(to:_:)` gives it one, `export(_:to:touching:)` writes its payload to another place, and
  /// `store.packing` at `.off` packs none. This does not look at the disk.
  ///
  /// - Throws: `invalidKey`; `closed`.
  public func filePath(for key: BlobKey) throws -> FilePath {
    try openEngine().store.filePath(for: key)
  }

  /// Runs a closure while no other thread or process changes a key's record.
  ///
  /// Others can neither store, touch, lock, unlock, remove nor collect it: they wait for their `lockTimeout` at most,
  /// and are then `busy`. Loads do not wait. A blob that is staged for the key is written first. A record that lies in a
  /// pack gets a file of its own then, and keeps it.
  ///
  /// The closure may read the file, link to it and give it extended attributes. It must not write to the file, nor
  /// change anything through the cache: that would wait for itself.
  ///
  /// - Parameters:
  ///   - key: the record's.
  ///   - body: receives `filePath(for:)`, where a record may lie or not, on a thread of the cache's; it may block.
  /// - Throws: what `body` throws; `busy` if others were changing the key for `lockTimeout`; else as `touch`.
  public func withExclusiveAccess<Result: Sendable>(
    to key: BlobKey, _ body: @escaping @Sendable (FilePath) throws -> Result
  ) async throws -> Result {
    let engine = try openEngine()
    return try await withSpan("withExclusiveAccess", key) {
      try await engine.lanes.writes.run { _ in try engine.withExclusiveAccess(to: key, body) }
    }
  }
}
