import BlobCache
import BlobStore
import Foundation
import Posix
import TestSupport
import Testing

/// Spec/Semantics.md, Y and A25: blobs of the cache that are read and written in chunks.
@Suite(.timeLimit(.minutes(30))) struct StreamTests {
  let test: TestCache

  init() throws { test = try TestCache() }

  private func pieces(
    _ reader: CacheReader, of range: Range<Int64>? = nil, by pieceSize: Int = 256 << 10
  ) async throws
    -> [Data]
  {
    var pieces: [Data] = []
    for try await piece in reader.pieces(of: range, pieceSize: pieceSize) { pieces.append(piece) }
    return pieces
  }

  @Test(arguments: [0, 1, 4096, 1_000_000]) func writesAndReads(byteCount: Int) async throws {
    let cache = try test.cache()
    let bytes = payload(byteCount)
    try await cache.store(payload(7, 2), for: "key")
    let writer = try await cache.openWriter(for: "key", ttl: .seconds(50), locks: .one, expectedSize: Int64(byteCount))
    for start in stride(from: 0, to: byteCount, by: 300_000) {
      try await writer.append(bytes[start..<min(start + 300_000, byteCount)])
    }
    // The new blob is not visible before the commit, and memory returns the old one until then.
    #expect(try await cache.load("key")?.payload == payload(7, 2))
    let header = try await writer.commit()
    #expect(header.refCount == 1 && header.ttl == 50)
    #expect(try await cache.load("key")?.payload == bytes)
    let reader = try #require(try await cache.openReader(for: "key"))
    #expect(reader.key == "key" && reader.byteCount == Int64(byteCount) && reader.header == header)
    #expect(try await reader.read(0..<Int64(byteCount)) == bytes)
    #expect(try await pieces(reader, by: 1000).reduce(Data(), +) == bytes)
    #expect(try await pieces(reader).count == (byteCount + (256 << 10) - 1) / (256 << 10))
    #expect(try await reader.withMappedBytes { span in span.withUnsafeBytes { Data($0) } } == bytes)
    #expect(try await reader.read(0..<min(5, Int64(byteCount)), verifying: true) == bytes.prefix(5))
  }

  /// A25: a writer ends only once.
  @Test func aWriterEndsOnce() async throws {
    let cache = try test.cache()
    let writer = try await cache.openWriter(for: "key")
    try await writer.append(payload(10))
    try await writer.commit()
    await expect(.writerEnded) { try await writer.append(payload(1)) }
    await expect(.writerEnded) { try await writer.commit() }
    await expect(.writerEnded) { try await writer.discard() }
    let other = try await cache.openWriter(for: "key")
    try await other.append(payload(20))
    try await other.discard()
    await expect(.writerEnded) { try await other.commit() }
    #expect(try await cache.load("key")?.payload == payload(10))
    #expect(try await cache.usage().temporaryFiles == 0)
  }

  /// Y3, Y5: the writer throws the errors of the store, and the blob is not stored.
  @Test func errorsAreTheStores() async throws {
    let cache = try test.cache()
    let writer = try await cache.openWriter(for: "key", expectedSize: 5)
    for _ in 0..<2 {
      let error = await #expect(throws: BlobStoreError.self) { try await writer.append(payload(6)) }
      #expect(error?.code == .sizeMismatch)
    }
    let error = await #expect(throws: BlobStoreError.self) { try await writer.commit() }
    #expect(error?.code == .sizeMismatch)
    #expect(try await cache.openReader(for: "key") == nil)
  }

  /// A25: a writer occupies no thread while it waits for its source.
  @Test func writersHoldNoThread() async throws {
    let cache = try test.cache { $0.maxConcurrentOperations = 1 }
    var writers: [CacheWriter] = []
    for number in 0..<20 {
      let writer = try await cache.openWriter(for: BlobKey("key \(number)"))
      try await writer.append(payload(10))
      writers.append(writer)
    }
    // The single thread is free.
    try await cache.store(payload(5), for: "other")
    for writer in writers { try await writer.commit() }
    #expect(try await cache.usage().records == 21)
  }

  /// A11a: a reader opens a staged blob, and a commit supersedes it.
  @Test func stagedBlobsAreReadAndReplaced() async throws {
    var writeBehind = BlobCache.WriteBehind()
    writeBehind.delay = .seconds(1000)
    let cache = try test.cache { [writeBehind] in $0.writing = .behind(writeBehind) }
    try await cache.store(payload(10), for: "key")
    let reader = try #require(try await cache.openReader(for: "key"))
    #expect(try await reader.read(0..<10) == payload(10))
    try await cache.lock("key")
    let writer = try await cache.openWriter(for: "key", locks: .keep)
    try await cache.store(payload(20), for: "key")
    try await writer.append(payload(30))
    // A12c: a staged blob has no locks that could be inherited.
    let header = try await writer.commit()
    #expect(header.refCount == 0)
    #expect(try await cache.load("key")?.payload == payload(30))
    try await cache.flush()
    #expect(try await cache.load("key")?.payload == payload(30))
  }

  /// Y10, A17: damage is an error and an event.
  @Test func damageIsTold() async throws {
    let cache = try test.cache { $0.memory = nil }
    try await cache.store(payload(1000), for: "key")
    try test.flipLastByte(of: "ke/key")
    let reader = try #require(try await cache.openReader(for: "key"))
    var received = 0
    let error = await #expect(throws: BlobStoreError.self) {
      for try await piece in reader.pieces(pieceSize: 300) { received += piece.count }
    }
    #expect(error?.code == .damaged && received == 900)
    #expect(throws: BlobStoreError.self) { try reader.blocking.verify() }
    let events = cache.events(bufferSize: 10)
    try Data([1, 2, 3]).write(to: URL(filePath: test.path("ke/key")))
    await #expect(throws: BlobStoreError.self) { _ = try await cache.openReader(for: "key") }
    #expect(try await cache.openReader(for: "absent") == nil)
    var told: [String] = []
    for await event in events {
      told.append("\(event.kind)".prefix { $0 != "(" }.description)
      if told.count == 2 { break }
    }
    #expect(told == ["damaged", "miss"])
  }

  @Test func rangesOutsideAreErrors() async throws {
    let cache = try test.cache()
    try await cache.store(payload(10), for: "key")
    let reader = try #require(try await cache.openReader(for: "key"))
    var errors = [await #expect(throws: BlobStoreError.self) { _ = try await reader.read(5..<11) }]
    errors.append(await #expect(throws: BlobStoreError.self) { _ = try await pieces(reader, of: 5..<11) })
    #expect(errors.map { $0?.code } == [.invalidRange, .invalidRange])
  }

  /// A14.
  @Test func afterTheEndNothingIsDone() async throws {
    let cache = try test.cache()
    try await cache.store(payload(10), for: "key")
    let writer = try await cache.openWriter(for: "key")
    let reader = try #require(try await cache.openReader(for: "key"))
    try await cache.close()
    await expect(.closed) { try await writer.append(payload(1)) }
    await expect(.closed) { try await writer.commit() }
    await expect(.closed) { _ = try await reader.read(0..<1) }
    await expect(.closed) { _ = try await cache.openReader(for: "key") }
    await expect(.closed) { _ = try await cache.openWriter(for: "key") }
    #expect(try reader.blocking.read(0..<10) == payload(10))
  }
}
