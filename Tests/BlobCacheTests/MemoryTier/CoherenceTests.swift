import BlobCache
import Foundation
import Posix
import Synchronization
import SystemPackage
import TestSupport
import Testing

/// The memory tier and the disk agree: Spec/Semantics.md, V.
@Suite struct CoherenceTests {
  let test: TestCache
  let cache: BlobCache
  let other: BlobStore

  init() throws {
    test = try TestCache()
    cache = try test.cache()
    other = try test.otherStore()
  }

  @Test func whatAnotherStoresIsSeenByTheNextLoad() async throws {
    try await cache.store(payload(10, 1), for: "a")
    for seed in UInt64(2)...20 {
      try other.store(payload(10, seed), for: "a")
      #expect(try await cache.load("a")?.payload == payload(10, seed))
      #expect(cache.blobInMemory(for: "a")?.payload == payload(10, seed))
    }
  }

  @Test func whatAnotherRemovesIsGone() async throws {
    try await cache.store(payload(10), for: "a")
    #expect(cache.blobInMemory(for: "a") != nil)
    try other.remove("a")
    #expect(cache.blobInMemory(for: "a") == nil)
    #expect(try await cache.load("a") == nil)
  }

  @Test func whatAnotherCollectsIsGone() async throws {
    try await cache.store(payload(10), for: "a", ttl: .seconds(5))
    test.clock.advance(by: 6)
    try other.collect()
    #expect(try await !cache.contains("a"))
  }

  @Test func anExpiredBlobIsNotServedFromMemory() async throws {
    try await cache.store(payload(10), for: "a", ttl: .seconds(60))
    test.clock.advance(by: 60)
    #expect(cache.blobInMemory(for: "a") != nil)
    test.clock.advance(by: 1)
    #expect(cache.blobInMemory(for: "a") == nil)
    #expect(try await cache.load("a") == nil)
  }

  @Test func aLockedBlobPastItsTimeIsAskedOfTheDisk() async throws {
    try await cache.store(payload(10), for: "a", ttl: .seconds(60), locks: .one)
    test.clock.advance(by: 61)
    #expect(cache.blobInMemory(for: "a") == nil)
    #expect(try await cache.load("a") != nil)
    #expect(cache.blobInMemory(for: "a") == nil)
    try other.unlock("a")
    #expect(try await cache.load("a") == nil)
  }

  /// Until the deletion is noticed, the old file's generations miss the changes of other processes.
  @Test func aControlFileThatWasDeletedIsNoticedWithinASecond() async throws {
    try await cache.store(payload(10, 1), for: "a")
    try FileManager.default.removeItem(atPath: test.path(".blobcache"))
    try other.store(payload(10, 2), for: "a")
    test.disk.wait(milliseconds: 1000)
    #expect(try await cache.load("a")?.payload == payload(10, 2))
  }

  /// Memory drops blobs that were read with the generations of a deleted control file, because they keep it open.
  @Test func memoryLetsGoOfAControlFileThatWasDeleted() async throws {
    for key: BlobKey in ["a", "b"] { try await cache.store(payload(10), for: key) }
    try FileManager.default.removeItem(atPath: test.path(".blobcache"))
    try other.store(payload(10), for: "c")
    test.disk.wait(milliseconds: 1000)
    try await until {
      let found = try await cache.load("c")
      #expect(found != nil)
      return cache.memoryCount == 1
    }
    #expect(cache.blobInMemory(for: "c") != nil)
  }

  /// V1: the generation that decides is read before the disk is read.
  @Test(arguments: [true, false]) func whatAnotherChangesWhileItIsReadIsNotKept(isRemoved: Bool) async throws {
    try other.store(payload(10, 1), for: "a")
    test.clock.advance(by: 10)
    // After the record is read, its stripe is locked to advance the update time.
    test.disk.hold(.takeStripe)
    async let loaded = cache.load("a")
    try await test.disk.waitForHeld(1)
    if isRemoved { try other.remove("a") } else { try other.store(payload(10, 2), for: "a") }
    test.disk.letGo()
    #expect(try await loaded?.payload == payload(10, 1))
    #expect(cache.blobInMemory(for: "a") == nil)
    #expect(try await cache.load("a")?.payload == (isRemoved ? nil : payload(10, 2)))
  }

  @Test func withoutGenerationsMemoryIsOff() async throws {
    try other.store(payload(10), for: "a")
    try FileManager.default.removeItem(atPath: test.path(".blobcache"))
    // A cache that only loads does not create a control file.
    #expect(try await cache.load("a") != nil)
    #expect(cache.blobInMemory(for: "a") == nil)
    #expect(cache.memoryCount == 0)
  }

  @Test func withoutGenerationsADirectoryOfOnesOwnIsKeptInMemory() async throws {
    let test = try TestCache()
    // A directory occupies the path of the control file.
    try FileManager.default.createDirectory(atPath: test.path("ab"), withIntermediateDirectories: true)
    chmod(test.root.string, 0o700)
    test.disk.fail(.map, .invalidArgument)
    let cache = try test.cache { $0.store.access.sharing = .exclusive }
    try await cache.store(payload(10, 1), for: "abc")
    #expect(try await cache.load("abc") != nil)
    #expect(cache.blobInMemory(for: "abc")?.payload == payload(10, 1))
    try await cache.store(payload(10, 2), for: "abc")
    #expect(try await cache.load("abc")?.payload == payload(10, 2))
    #expect(cache.blobInMemory(for: "abc")?.payload == payload(10, 2))
    try await cache.remove("abc")
    #expect(try await cache.load("abc") == nil)
    try await cache.store(payload(10, 3), for: "abc")
    _ = try await cache.load("abc")
    try await cache.removeAll(.all)
    #expect(cache.blobInMemory(for: "abc") == nil)
  }

  @Test func aShareOfTheMemoryIsTheMostThatOneBlobTakes() async throws {
    let test = try TestCache()
    let cache = try test.cache { $0.memory?.byteLimit = 100_000 }
    try await cache.store(payload(50_000), for: "large")
    try await cache.store(payload(5000), for: "small")
    #expect(cache.memoryKeys == ["small"])
    #expect(try await cache.load("large")?.payload.count == 50_000)
    #expect(cache.memoryByteCount > 5000)
  }

  @Test func twoWritersAndReadersNeverSeeAnOlderBlobAfterANewerOne() async throws {
    try await cache.store(Data([0]), for: "a")
    let other = other
    try await withThrowingTaskGroup { group in
      group.addTask {
        for value in UInt8(1)...250 { try other.store(Data([value]), for: "a") }
      }
      for _ in 0..<2 {
        group.addTask { [cache] in
          var last: UInt8 = 0
          let end = ContinuousClock.now + .seconds(300)
          while last < 250 {
            try #require(.now < end, "the last one never comes")
            let value = try #require(try await cache.load("a")?.payload.first)
            #expect(value >= last)
            last = value
            await Task.yield()
          }
        }
      }
      try await group.waitForAll()
    }
  }
}
