import BlobCache
import Foundation
import MemoryCache
import TestSupport
import Testing

/// Spec/Semantics.md, V5: what memory answers is what a load from disk would.
@Suite struct KeptBlobTests {
  let test: TestCache

  init() throws { test = try TestCache() }

  /// Indices from 0 on, and none of what the caller's bytes are a slice of.
  @Test(arguments: [true, false]) func aSliceIsKeptAsACopy(isStaged: Bool) async throws {
    let cache = try test.cache {
      guard isStaged else { return }
      var writeBehind = BlobCache.WriteBehind()
      writeBehind.delay = .seconds(1000)
      $0.writing = .behind(writeBehind)
    }
    let packet = payload(1000)
    try await cache.store(packet.dropFirst(4), for: "stored")
    let produced = try await cache.load("produced") { packet.suffix(100) }
    #expect(produced.payload.startIndex == 0)
    for (key, expected) in [("stored", packet.dropFirst(4)), ("produced", packet.suffix(100))] {
      let blob = try #require(await cache.load(BlobKey(key)))
      #expect(blob.payload.startIndex == 0)
      #expect(blob.payload == Data(expected))
    }
  }

  @Test func theNextLoadTellsOfATouch() async throws {
    let cache = try test.cache()
    try await cache.store(payload(10), for: "a")
    test.clock.advance(by: 100)
    try await cache.touch("a")
    let opens = test.disk.callCount
    #expect(try await cache.load("a")?.header.lastUpdate == test.clock.now)
    #expect(test.disk.callCount == opens)
  }

  @Test func aLoadFromDiskIsOneMissInMemory() async throws {
    let cache = try test.cache()
    try await cache.store(payload(10), for: "a")
    cache.removeAllFromMemory()
    _ = try await cache.load("a")
    _ = try await cache.load("a")
    #expect(cache.memoryStatistics.misses == 1)
    #expect(cache.memoryStatistics.hits == 1)
  }
}
