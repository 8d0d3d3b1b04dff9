import BlobCache
import BlobStore
import Foundation
import Posix
import TestSupport
import Testing

/// Spec/Semantics.md, Y13 to Y15 and A26: blobs that are visible while they are written, and the key's other blobs in
/// memory, staged and on disk.
@Suite(.timeLimit(.minutes(30))) struct VisibleStoreTests {
  let test: TestCache

  init() throws { test = try TestCache() }

  private func all(_ follower: CacheFollower) async throws -> Data {
    var bytes = Data()
    for try await piece in follower.pieces() { bytes.append(piece) }
    return bytes
  }

  /// Returns a cache that writes staged blobs only when it must, or is flushed.
  private func writingLate() throws -> BlobCache {
    var behind = BlobCache.WriteBehind()
    behind.delay = .seconds(500)
    return try test.cache { $0.writing = .behind(behind) }
  }

  // MARK: Staged blobs

  /// Y15: a blob that is staged while the writer is open is newer than the writer's blob.
  @Test(arguments: [true, false]) func aStagedStoreWins(isCommitted: Bool) async throws {
    let cache = try writingLate()
    let writer = try await cache.openWriter(for: "key", visibility: .whileWriting)
    try await writer.append(payload(10))
    let follower = try #require(try await cache.openFollower(for: "key"))
    try await cache.store(payload(7, 2), for: "key")
    if isCommitted {
      let error = await #expect(throws: BlobStoreError.self) { try await writer.commit() }
      #expect(error?.code == .superseded)
      #expect(try await all(follower) == payload(10))
    } else {
      try await writer.discard()
    }
    #expect(try await cache.load("key")?.payload == payload(7, 2))
    try await cache.flush()
    #expect(try test.otherStore().load("key")?.payload == payload(7, 2))
  }

  /// Y13: a blob that was staged before the writer was opened is older than the writer's blob.
  @Test func aStreamReplacesWhatIsStaged() async throws {
    let cache = try writingLate()
    try await cache.store(payload(7, 2), for: "key")
    let writer = try await cache.openWriter(for: "key", visibility: .whileWriting)
    try await writer.append(payload(10))
    try await writer.commit()
    try await cache.flush()
    #expect(try await cache.load("key")?.payload == payload(10))
    #expect(try test.otherStore().load("key")?.payload == payload(10))
  }

  /// Y1: a writer that is not visible takes its place at the commit, so its blob is newer than the staged one.
  @Test func aCommitReplacesWhatIsStaged() async throws {
    let cache = try writingLate()
    let writer = try await cache.openWriter(for: "key")
    try await writer.append(payload(10))
    try await cache.store(payload(7, 2), for: "key")
    try await writer.commit()
    try await cache.flush()
    #expect(try test.otherStore().load("key")?.payload == payload(10))
  }

  // MARK: Memory

  /// Y13: the old blob is removed from memory, also without generations.
  @Test(arguments: [true, false], [true, false]) func theOldBlobGoesFromMemory(
    isExclusive: Bool, hasGenerations: Bool
  ) async throws {
    if !hasGenerations { test.disk.fail(.map, .operationNotSupportedByDevice) }
    let cache = try test.cache { if isExclusive { $0.store.access.sharing = .exclusive } }
    for isCommitted in [false, true] {
      try await cache.store(payload(7, 2), for: "key")
      _ = try await cache.load("key")
      #expect((cache.blobInMemory(for: "key") != nil) == (isExclusive || hasGenerations))
      let writer = try await cache.openWriter(for: "key", visibility: .whileWriting)
      #expect(cache.blobInMemory(for: "key") == nil)
      let error = await #expect(throws: BlobStoreError.self) { try await cache.load("key") }
      #expect(error?.recordError == .recordIsStreamAndBusy)
      if isCommitted { try await writer.commit() } else { try await writer.discard() }
      #expect(try await cache.load("key")?.payload == (isCommitted ? Data() : nil))
    }
  }

  // MARK: What readers get

  /// Y19a, A26a: extended data that the producer sets are available at the end of the payload.
  @Test func readersGetExtendedData() async throws {
    let cache = try test.cache()
    let follower = try await cache.stream("key") { writer in
      try await writer.append(payload(1000))
      writer.setExtendedData(payload(20, 3))
    }
    #expect(try await all(follower) == payload(1000))
    #expect(follower.extendedData == payload(20, 3))
    #expect(try await cache.load("key")?.extendedData == payload(20, 3))
    let whole = try await cache.stream("key") { _ in Issue.record("a second producer") }
    #expect(whole.extendedData == payload(20, 3))
  }

  /// S7: readers throw an error for extended data that exceed the limit, and nothing is stored.
  @Test func tooManyExtendedDataAreAnError() async throws {
    let cache = try test.cache()
    let follower = try await cache.stream("key") { writer in writer.setExtendedData(payload(100_000)) }
    let error = await #expect(throws: BlobStoreError.self) { try await all(follower) }
    #expect(error?.code == .extendedDataTooLarge)
    #expect(try await cache.load("key") == nil)
  }

  /// A26: a reader of a blob that was stored in the meantime does not keep the producer of another blob running.
  @Test func aReaderOfAnotherBlobKeepsNoProducer() async throws {
    let cache = try test.cache()
    let (ended, continuation) = AsyncStream<Bool>.makeStream()
    var first: CacheFollower? = try await cache.stream("key") { writer in
      try await writer.append(payload(10))
      // The sleep ends when the producer is cancelled.
      try? await Task.sleep(for: .seconds(500))
      continuation.yield(Task.isCancelled)
      try Task.checkCancellation()
    }
    #expect(try await first?.read(at: 0) == payload(10))
    try await cache.store(payload(7, 2), for: "key")
    let second = try await cache.stream("key") { _ in Issue.record("a second producer") }
    #expect(try await all(second) == payload(7, 2))
    first = nil
    for await wasCancelled in ended {
      #expect(wasCancelled)
      break
    }
    #expect(try await cache.load("key")?.payload == payload(7, 2))
  }
}
