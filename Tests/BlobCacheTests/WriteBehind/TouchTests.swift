import BlobCache
import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

/// The lifetime of blobs that memory returns.
@Suite struct TouchTests {
  let test: TestCache
  let cache: BlobCache

  init() throws {
    test = try TestCache()
    cache = try test.cache { $0.touchInterval = .seconds(100) }
  }

  private func updateOnDisk() throws -> Int64? { try test.otherStore().header(for: "a")?.lastUpdate.seconds }

  @Test func theDiskIsToldOncePerInterval() async throws {
    try await cache.store(payload(1), for: "a")
    let start = test.clock.now.seconds
    test.clock.advance(by: 99)
    #expect(cache.blobInMemory(for: "a") != nil)
    try await Task.sleep(for: .milliseconds(20))
    #expect(try updateOnDisk() == start)
    test.clock.advance(by: 1)
    #expect(cache.blobInMemory(for: "a") != nil)
    try await until { try updateOnDisk() == start + 100 }
    test.clock.advance(by: 50)
    #expect(cache.blobInMemory(for: "a") != nil)
    try await Task.sleep(for: .milliseconds(20))
    #expect(try updateOnDisk() == start + 100)
  }

  /// A loaded header contains the new update time as soon as the touch was written.
  @Test func anUpdateTimeShowsAsSoonAsItIsKnown() async throws {
    try await cache.store(payload(1), for: "a")
    let start = test.clock.now
    test.clock.advance(by: 50)
    for touching in [false, true, true] {
      #expect(try await cache.load("a", touching: touching)?.header.lastUpdate == start)
    }
    _ = try await cache.collect()
    #expect(try await cache.load("a", touching: false)?.header.lastUpdate == test.clock.now)
    #expect(try updateOnDisk() == test.clock.now.seconds)
  }

  /// V3: a collection also waits for touches that another thread is writing.
  @Test func aCollectionWaitsForTheUsesThatAreBeingWritten() async throws {
    try await cache.store(payload(10), for: "a")
    test.clock.advance(by: 110)
    test.disk.hold(.write)
    #expect(try await cache.load("a") != nil)
    try await test.disk.waitForHeld(1)
    let count = Counter()
    let collection = Task {
      defer { count.increment() }
      return try await cache.collect()
    }
    // This is longer than a collection waits for the counters, which the held change is updating.
    try await Task.sleep(for: .milliseconds(500))
    #expect(count.count == 0)
    test.disk.letGo()
    #expect(try await collection.value.examined == 1)
    try await cache.close()
  }

  @Test func aBlobThatIsAskedForLivesOn() async throws {
    try await cache.store(payload(1), for: "a")
    for _ in 0..<20 {
      test.clock.advance(by: 110)
      #expect(try await cache.load("a") != nil)
      try await until { try updateOnDisk() == test.clock.now.seconds }
    }
    test.clock.advance(by: 601)
    #expect(try await cache.load("a") == nil)
  }

  @Test func aUseIsNotForgottenThatComesWhileTheDiskIsToldOfAnother() async throws {
    try await cache.store(payload(1), for: "a")
    test.clock.advance(by: 110)
    test.disk.hold(.write)
    #expect(cache.blobInMemory(for: "a") != nil)
    try await test.disk.waitForHeld(1)
    test.clock.advance(by: 110)
    #expect(cache.blobInMemory(for: "a") != nil)
    test.disk.letGo()
    try await until { try updateOnDisk() == test.clock.now.seconds }
  }

  @Test func aPassKnowsOfTheLatestUse() async throws {
    try await cache.store(payload(1), for: "a")
    let start = test.clock.now.seconds
    test.clock.advance(by: 50)
    #expect(cache.blobInMemory(for: "a") != nil)
    #expect(try updateOnDisk() == start)
    try await cache.collect()
    #expect(try updateOnDisk() == start + 50)
  }

  /// The most recent use, which only memory knows, protects the record when a store starts an eviction.
  @Test func aPassThatAStoreStartsKnowsOfTheLatestUse() async throws {
    let test = try TestCache()
    let cache = try test.cache {
      $0.touchInterval = .seconds(100)
      $0.store.limits.count = 10
    }
    for number in 0..<10 {
      try await cache.store(payload(1), for: BlobKey("key \(number)"))
      // The first collection loads the counters and the eviction candidates. A record that is stored meanwhile may be
      // counted twice.
      cache.store.waitForCollection()
      test.clock.advance(by: 1)
    }
    #expect(cache.blobInMemory(for: "key 0") != nil)
    test.clock.advance(by: 1)
    try await cache.store(payload(1), for: "key 10")
    cache.store.waitForCollection()
    let left = try Set(test.otherStore().records().compactMap(\.key?.string))
    #expect(left == Set(["key 0"] + (3...10).map { "key \($0)" }))
  }

  @Test func closingTellsTheDisk() async throws {
    try await cache.store(payload(1), for: "a")
    let start = test.clock.now.seconds
    test.clock.advance(by: 50)
    #expect(cache.blobInMemory(for: "a") != nil)
    try await cache.close()
    #expect(try updateOnDisk() == start + 50)
  }

  @Test func aLoadThatDoesNotTouchLeavesTheTime() async throws {
    try await cache.store(payload(1), for: "a")
    let start = test.clock.now.seconds
    test.clock.advance(by: 300)
    #expect(try await cache.load("a", touching: false) != nil)
    try await cache.collect()
    #expect(try updateOnDisk() == start)
  }

  @Test func aTimeToLiveOfItsOwnIsNotExtended() async throws {
    try await cache.store(payload(1), for: "a", ttl: .seconds(600))
    for _ in 0..<6 {
      test.clock.advance(by: 100)
      #expect(try await cache.load("a") != nil)
    }
    test.clock.advance(by: 1)
    #expect(try await cache.load("a") == nil)
  }

  /// The expiration depends on the update time on disk, which has not moved.
  @Test func aTouchThatFailsDoesNotExtendTheLifeInMemory() async throws {
    try await cache.store(payload(1), for: "a")
    test.disk.fail(.write, .ioError)
    test.clock.advance(by: 500)
    #expect(cache.blobInMemory(for: "a") != nil)
    try await cache.collect()
    test.clock.advance(by: 101)
    #expect(cache.blobInMemory(for: "a") == nil)
  }

  /// V3: a touch is tried at most once per interval, even if it fails, for example for a record with a second link.
  @Test func aTouchThatFailsIsTriedOncePerInterval() async throws {
    try await cache.store(payload(1), for: "a")
    try FileManager.default.linkItem(atPath: test.path("a"), toPath: test.outside.url("link").path)
    func opened() -> Int { test.disk.count(.open) + test.disk.count(.openBeneath) }
    func hit() {
      #expect(cache.blobInMemory(for: "a") != nil)
      cache.writeDueTouches()
    }
    test.clock.advance(by: 110)
    let before = opened()
    hit()
    let calls = opened() - before
    #expect(calls > 0)
    for _ in 0..<50 { hit() }
    test.clock.advance(by: 99)
    for _ in 0..<50 { hit() }
    #expect(opened() - before == calls)
    test.clock.advance(by: 1)
    for _ in 0..<50 { hit() }
    #expect(opened() - before == 2 * calls)
    // After the clock is set back, the cache cannot tell when the last try was, so it tries again.
    test.clock.advance(by: -50)
    for _ in 0..<50 { hit() }
    #expect(opened() - before == 3 * calls)
    #expect(try updateOnDisk() == test.clock.now.seconds - 160)
  }

  /// A use whose write has failed is recorded again by the next hit, even in the same second, and written at the end.
  @Test func aUseThatCouldNotBeWrittenIsRecordedAgain() async throws {
    try await cache.store(payload(1), for: "a")
    test.clock.advance(by: 50)
    #expect(cache.blobInMemory(for: "a") != nil)
    test.disk.fail(.write, .ioError)
    _ = try? await cache.collect()
    test.disk.fail(.write, nil)
    #expect(try updateOnDisk() == test.clock.now.seconds - 50)
    #expect(cache.blobInMemory(for: "a") != nil)
    try await cache.close()
    #expect(try updateOnDisk() == test.clock.now.seconds)
  }

  @Test func aTouchForWhichThereIsNoThreadIsMadeUpFor() async throws {
    for key: BlobKey in ["a", "b"] { try await cache.store(payload(1), for: key) }
    test.clock.advance(by: 100)
    cache.failThreads(with: .resourceTemporarilyUnavailable)
    #expect(cache.blobInMemory(for: "a") != nil)
    cache.failThreads(with: nil)
    #expect(cache.blobInMemory(for: "b") != nil)
    try await until { try updateOnDisk() == test.clock.now.seconds }
  }

  @Test func anExplicitTouchExtendsTheLifeInMemory() async throws {
    try await cache.store(payload(1), for: "a")
    test.clock.advance(by: 500)
    try await cache.touch("a")
    test.clock.advance(by: 500)
    #expect(cache.blobInMemory(for: "a") != nil)
  }

  @Test(arguments: [(1000, 150), (100, 100), (0, 1)]) func theIntervalIsAtMostAQuarter(asked: Int, kept: Int64) throws {
    let test = try TestCache()
    let cache = try test.cache { $0.touchInterval = .seconds(asked) }
    #expect(cache.touchIntervalSeconds == kept)
  }
}
