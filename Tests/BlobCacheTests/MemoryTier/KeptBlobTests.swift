import BlobCache
import Foundation
import MemoryCache
import Posix
import Synchronization
import TestSupport
import Testing

/// Spec/Semantics.md, V5: memory returns the same blob that a load from disk would return.
@Suite struct KeptBlobTests {
  let test: TestCache

  init() throws { test = try TestCache() }

  /// The copy has indices that start at 0, and retains no bytes outside the caller's slice.
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
    // This interval is shorter than the one after which a use is written to disk.
    test.clock.advance(by: 50)
    let start = try #require(try await cache.load("a")).header.lastUpdate
    #expect(start < test.clock.now)
    try await cache.touch("a")
    let reads = test.disk.count(.read)
    #expect(try await cache.load("a")?.header.lastUpdate == test.clock.now)
    #expect(test.disk.count(.read) == reads)
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

  /// Locks do not change the generation.
  @Test(arguments: ["lock", "unlock", "touch"])
  func aHeaderThatChangesWhileItIsReadIsNotKept(change: String) async throws {
    let caches = Log<BlobCache>()
    let isArmed = Atomic(false)
    let files = Files { call, _ in
      // The record's file is closed after the record has been read.
      guard call == .close, isArmed.exchange(false, ordering: .relaxed) else { return nil }
      let cache = caches.all[0]
      #expect(throws: Never.self) {
        _ = try waiting {
          switch change {
          case "lock": try await cache.lock("a")
          case "unlock": try await cache.unlock("a")
          default: try await cache.touch("a")
          }
        }
      }
      return nil
    }
    let cache = try BlobCache(directory: test.root, configuration: test.configuration(), files: files)
    caches.append(cache)
    try await cache.store(payload(10), for: "a")
    try await cache.lock("a")
    cache.removeAllFromMemory()
    test.clock.advance(by: 100)
    isArmed.store(true, ordering: .relaxed)
    // The read runs on its own thread, because the change may block it.
    #expect(try await onOwnThread { try cache.readBlob("a", touching: false) } != nil)
    let isStillArmed = isArmed.load(ordering: .relaxed)
    #expect(!isStillArmed)
    let header = try await cache.load("a", touching: false)?.header
    #expect(header?.refCount == (change == "lock" ? 2 : change == "unlock" ? 0 : 1))
    #expect(header?.lastUpdate == (change == "touch" ? test.clock.now : test.clock.now.advanced(bySeconds: -100)))
  }

  /// The payload is copied once, when the store is called.
  @Test func whatWasStagedIsKeptAsItIs() async throws {
    let cache = try test.cache {
      var writeBehind = BlobCache.WriteBehind()
      writeBehind.delay = .seconds(1000)
      $0.writing = .behind(writeBehind)
    }
    func address() async throws -> UInt? {
      try await cache.load("a")?.payload.withUnsafeBytes { UInt(bitPattern: $0.baseAddress) }
    }
    try await cache.store(payload(1000), for: "a")
    let staged = try await address()
    try await cache.flush()
    #expect(try await address() == staged)
    #expect(staged != nil)
  }
}
