internal import BlobCache
internal import BlobRecord
internal import BlobStore
internal import Foundation
internal import Posix

/// The target of a worker's calls: a store, or with `--memory` a cache with a memory tier.
struct CacheInHand: Sendable {
  let store: BlobStore
  private let cache: BlobCache?
  /// A Boolean value that indicates whether reads are first tried without waiting.
  private let looks: Bool

  init(_ store: BlobStore, looks: Bool) {
    self.store = store
    self.looks = looks
    cache = nil
  }

  init(_ cache: BlobCache, looks: Bool) {
    store = cache.store
    self.looks = looks
    self.cache = cache
  }

  /// Returns the blob in memory, without counting as a use because the checker's model has no delayed uses.
  func residentBlob(_ key: BlobKey) -> Blob? { cache?.blobInMemory(for: key, touching: false) }

  /// Returns the blob on disk by a read that never waits. The cache keeps the blob.
  ///
  /// - Parameter touching: A Boolean value that indicates whether loads touch records. Then a record with ttl 0 has no
  ///   answer, because the read touches it later.
  /// - Returns: The answer, or `nil` if the read has no answer.
  func blobAtOnce(_ key: BlobKey, touching: Bool) throws -> Blob?? {
    guard looks else { return nil }
    let answer: Blob??
    if let cache {
      answer = cache.blobAtOnce(key)
    } else {
      var receipt = LoadReceipt()
      let path = try store.path(of: key, for: "load")
      answer = store.loadIfCached(key, at: path, touching: false, &receipt).answer
    }
    guard let blob = answer else { return nil }
    return touching && blob?.header.ttl == 0 ? nil : .some(blob)
  }

  /// Returns the blob on disk. The cache keeps the blob.
  func readBlob(_ key: BlobKey, touching: Bool) throws -> Blob? {
    if let cache { return try cache.readBlob(key, touching: touching) }
    return try store.load(key, touching: touching)
  }

  /// Returns the blob on disk by a reader, in pieces or mapped.
  ///
  /// - Parameter pieceSize: The size of the pieces, or `nil` to map the bytes.
  func readPieces(_ key: BlobKey, touching: Bool, pieceSize: Int?) throws -> Blob? {
    guard let reader = try store.openReader(for: key, touching: touching) else { return nil }
    var payload = Data()
    if let pieceSize {
      try reader.forEachPiece(pieceSize: pieceSize) { piece in piece.withUnsafeBytes { payload.append(contentsOf: $0) }
      }
    } else {
      try reader.withMappedBytes { bytes in bytes.withUnsafeBytes { payload.append(contentsOf: $0) } }
    }
    return Blob(key: key, payload: payload, header: reader.header)
  }

  /// Stores a blob in pieces, with a writer.
  ///
  /// - Parameter isExpected: A Boolean value that indicates whether the writer gets the size in advance.
  func storePieces(
    _ payload: Data, for key: BlobKey, ttl: Duration?, locks: BlobStore.LockPolicy, pieceSize: Int, isExpected: Bool
  ) throws {
    var writer = try store.openWriter(
      for: key, ttl: ttl, locks: locks, expectedSize: isExpected ? Int64(payload.count) : nil)
    for start in stride(from: 0, to: payload.count, by: pieceSize) {
      try writer.append(payload[start..<min(start + pieceSize, payload.count)])
    }
    try writer.commit()
  }

  func contains(_ key: BlobKey) throws -> Bool {
    if looks, let header = store.headerIfCached(for: key).answer { return header != nil }
    if let cache { return try waiting { try await cache.contains(key) } }
    return try store.contains(key)
  }

  func header(for key: BlobKey) throws -> RecordHeader? {
    if looks, let header = store.headerIfCached(for: key).answer { return header }
    if let cache { return try waiting { try await cache.header(for: key) } }
    return try store.header(for: key)
  }

  func store(_ payload: Data, for key: BlobKey, ttl: Duration?, locks: BlobStore.LockPolicy) throws {
    if let cache {
      try waiting { try await cache.store(payload, for: key, ttl: ttl, locks: locks) }
    } else {
      try store.store(payload, for: key, ttl: ttl, locks: locks)
    }
  }

  func touch(_ key: BlobKey) throws -> BlobStore.Outcome {
    if let cache { return try waiting { try await cache.touch(key) } }
    return try store.touch(key)
  }

  func lock(_ key: BlobKey) throws -> BlobStore.Outcome {
    if let cache { return try waiting { try await cache.lock(key) } }
    return try store.lock(key)
  }

  func unlock(_ key: BlobKey) throws -> BlobStore.Outcome {
    if let cache { return try waiting { try await cache.unlock(key) } }
    return try store.unlock(key)
  }

  func remove(_ key: BlobKey) throws -> BlobStore.Outcome {
    if let cache { return try waiting { try await cache.remove(key) } }
    return try store.remove(key)
  }

  func removeAll(_ scope: BlobStore.RemovalScope) throws -> BlobStore.RemovalReport {
    if let cache { return try waiting { try await cache.removeAll(scope) } }
    return try store.removeAll(scope)
  }

  func collect() throws -> BlobStore.CollectionReport {
    if let cache { return try waiting { try await cache.collect() } }
    return try store.collect()
  }
}

extension CacheInHand {
  /// Waits for an asynchronous operation. The threads may block because they are not in the cooperative pool.
  private func waiting<Result: Sendable>(
    _ operation: @escaping @Sendable () async throws -> Result
  ) throws -> Result {
    let outcome = Monitor<Swift.Result<Result, any Error>?>(nil)
    Task.detached {
      do {
        let result = try await operation()
        outcome.change { $0 = .success(result) }
      } catch {
        outcome.change { $0 = .failure(error) }
      }
    }
    return try outcome.wait { outcome in outcome.map { .done($0) } ?? .wait(nil) }.get()
  }
}

extension CachedAnswer {
  fileprivate var answer: Value?? {
    if case .known(let value) = self { .some(value) } else { nil }
  }
}
