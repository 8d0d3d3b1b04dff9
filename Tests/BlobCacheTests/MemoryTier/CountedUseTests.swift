import BlobCache
import TestSupport
import Testing

@testable import BlobStore

/// Spec/Semantics.md, O2 and C30: hits in memory are counted for all processes, and are uses of the record.
@Suite struct CountedUseTests {
  let test: TestCache

  init() throws { test = try TestCache() }

  /// A request repeats its lookup when it acquires the production lock, and when a refresh begins.
  @Test(arguments: [true, false]) func aRequestThatLooksAgainIsOneUse(acrossProcesses: Bool) async throws {
    let cache = try test.cache { $0.store.limits.size = 100_000 }
    try await cache.store(payload(36), for: "other", ttl: .seconds(1000))
    let options = ProductionOptions(acrossProcesses: acrossProcesses)
    _ = try await cache.load("key", options: options) { payload(10) }
    #expect(try uses(of: "key") == 1)
  }

  private func uses(of key: BlobKey) throws -> Int? {
    let store = try test.otherStore()
    let open = try store.core.root.openedOrMade()
    let control = try #require(try open.controlFile(store.configuration.logger))
    let digest = try store.core.path(for: key).digest
    return store.core.uses.withSketch(of: control, in: open) { $0.uses(of: digest).count }
  }

  @Test func hitsInMemoryAreCounted() async throws {
    let cache = try test.cache()
    try await cache.store(payload(36), for: "key", ttl: .seconds(1000))
    for touching in [true, false] { #expect(try await cache.load("key", touching: touching) != nil) }
    _ = try await cache.contains("key")
    let traffic = try test.otherStore().traffic()
    #expect(traffic.hits == 2 && traffic.memoryHits == 2 && traffic.misses == 0)
    #expect(traffic.bytesServed == 72)
    cache.removeAllFromMemory()
    #expect(try await cache.load("key") != nil)
    #expect(try test.otherStore().traffic().hits == 3)
    #expect(try test.otherStore().traffic().memoryHits == 2)
    #expect(try await cache.traffic() == test.otherStore().traffic())
  }

  @Test(arguments: [true, false], [true, false]) func hitsAreUses(touching: Bool, fromDisk: Bool) async throws {
    let cache = try test.cache { $0.store.limits.size = 100_000 }
    for index in 0..<10 {
      try await cache.store(payload(36), for: BlobKey("key \(index)"), ttl: .seconds(1_000_000))
      test.clock.advance(by: 10)
    }
    for _ in 0..<5 {
      if fromDisk { cache.removeAllFromMemory() }
      #expect(try await cache.load("key 0", touching: touching) != nil)
    }
    var configuration = test.storeConfiguration
    configuration.limits.size = 340
    // The first store with a limit starts a collection, which counts the records.
    var options = BlobStore.CollectionOptions()
    options.waitsForOther = .seconds(300)
    #expect(try BlobStore(directory: test.root, configuration: configuration).collect(options).evicted == 7)
    let left = Set(try test.otherStore().records().compactMap { $0.key?.string })
    #expect(left == (touching ? ["key 0", "key 8", "key 9"] : ["key 7", "key 8", "key 9"]))
  }
}
