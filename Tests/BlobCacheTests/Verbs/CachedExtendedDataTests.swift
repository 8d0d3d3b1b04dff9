import BlobCache
import Foundation
import TestSupport
import Testing

/// Extended data of blobs in memory, staged, on disk and from producers.
@Suite struct CachedExtendedDataTests {
  let test: TestCache

  init() throws { test = try TestCache() }

  private static let type = Data("image/png".utf8)

  @Test(arguments: [BlobCache.Writing.through, .behind(.init())]) func theyComeBackFromEveryTier(
    writing: BlobCache.Writing
  ) async throws {
    let cache = try test.cache { $0.writing = writing }
    try await cache.store(payload(100), for: "a", extendedData: Self.type)
    #expect(try await cache.load("a")?.extendedData == Self.type)
    #expect(try await cache.extendedData(for: "a") == Self.type)
    try await cache.flush()
    #expect(cache.blobInMemory(for: "a")?.extendedData == Self.type)
    cache.removeAllFromMemory()
    #expect(try await cache.load("a")?.extendedData == Self.type)
    #expect(try await cache.extendedData(for: "a") == Self.type)
    #expect(try await cache.extendedData(for: "absent") == nil)
    try await cache.close()
  }

  @Test(arguments: [BlobCache.Writing.through, .behind(.init())]) func memoryForgetsWhatWasReplaced(
    writing: BlobCache.Writing
  ) async throws {
    let cache = try test.cache { $0.writing = writing }
    try await cache.store(payload(100), for: "a", ttl: .seconds(60), extendedData: Self.type)
    #expect(try await cache.setExtendedData(Data("text/html".utf8), for: "a") == .done)
    #expect(try await cache.load("a")?.extendedData == Data("text/html".utf8))
    #expect(try await cache.load("a")?.payload == payload(100))
    #expect(try await cache.setExtendedData(nil, for: "a") == .done)
    #expect(try await cache.load("a")?.extendedData == nil)
    #expect(try await cache.setExtendedData(Self.type, for: "absent") == .notFound)
    try await cache.close()
  }

  /// V1: a record that another process replaces is visible immediately.
  @Test func anotherStoresChangeIsSeen() async throws {
    let cache = try test.cache()
    try await cache.store(payload(100), for: "a", ttl: .seconds(60), extendedData: Self.type)
    #expect(cache.blobInMemory(for: "a")?.extendedData == Self.type)
    #expect(try test.otherStore().setExtendedData(Data("text/html".utf8), for: "a") == .done)
    #expect(try await cache.load("a")?.extendedData == Data("text/html".utf8))
  }

  @Test(arguments: [true, false]) func aProducerSaysThem(isStored: Bool) async throws {
    let cache = try test.cache()
    let blob = try await cache.load("a") { Produced(payload(9), isStored: isStored, extendedData: Self.type) }
    #expect(blob.extendedData == Self.type && blob.payload == payload(9))
    #expect(try await cache.extendedData(for: "a") == (isStored ? Self.type : nil))
  }

  @Test(arguments: [BlobCache.Writing.through, .behind(.init())]) func refusalsComeAtOnce(
    writing: BlobCache.Writing
  ) async throws {
    let cache = try test.cache { $0.writing = writing }
    let error = await #expect(throws: BlobStoreError.self) {
      try await cache.store(payload(1), for: "a", extendedData: payload(4097))
    }
    #expect(error?.code == .extendedDataTooLarge)
    #expect(try await !cache.contains("a"))
    try await cache.close()
  }

  @Test func aReplacementIsAnEvent() async throws {
    let cache = try test.cache()
    try await cache.store(payload(1), for: "a")
    let events = cache.events
    try await cache.setExtendedData(Self.type, for: "a")
    try await cache.close()
    var found: [Int] = []
    for await event in events { if case .extendedDataReplaced = event.kind { found.append(event.byteCount) } }
    #expect(found == [Self.type.count])
  }
}
