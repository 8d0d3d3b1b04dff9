import BlobCache
import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

private struct Refusal: Error, Equatable {
  let number: Int
}

/// Live but old blobs are returned, and refreshed.
@Suite(.timeLimit(.minutes(30))) struct RefreshTests {
  let test: TestCache
  let cache: BlobCache
  let options = ProductionOptions(ttl: .seconds(600), locks: .one, refreshesAfter: .seconds(60))

  init() throws {
    test = try TestCache()
    cache = try test.cache()
  }

  /// Returns a cache of another directory without a memory tier.
  private func cacheWithoutMemory() throws -> (TestCache, BlobCache) {
    let test = try TestCache()
    return (test, try test.cache { $0.memory = nil })
  }

  @Test func anOldBlobIsAnsweredAndProducedAnew() async throws {
    let options = ProductionOptions(ttl: .seconds(600), refreshesAfter: .seconds(60))
    let version = Counter()
    func load() async throws -> UInt8? {
      try await cache.load("a", options: options) { Data([UInt8(version.increment())]) }.payload.first
    }
    #expect(try await load() == 1)
    test.clock.advance(by: 59)
    #expect(try await load() == 1)
    test.clock.advance(by: 1)
    #expect(try await load() == 1)
    try await until { cache.productionCount == 0 }
    #expect(try await load() == 2)
    #expect(version.count == 2)
    test.clock.advance(by: 601)
    #expect(try await load() == 3)
  }

  @Test func aRefreshThatFailsLeavesWhatIsThere() async throws {
    try await cache.store(payload(1), for: "a", ttl: .seconds(600))
    test.clock.advance(by: 100)
    for _ in 0..<3 {
      let options = ProductionOptions(ttl: .seconds(600), refreshesAfter: .seconds(60))
      #expect(try await cache.load("a", options: options) { throw Refusal(number: 1) }.payload == payload(1))
      try await until { cache.productionCount == 0 }
    }
    #expect(try test.otherStore().load("a")?.payload == payload(1))
  }

  /// A8.
  @Test func aRememberedFailureKeepsItFromBeingTriedAgain() async throws {
    try await cache.store(payload(1), for: "a", ttl: .seconds(600))
    test.clock.advance(by: 100)
    let options = ProductionOptions(
      ttl: .seconds(600), remembersFailuresFor: .seconds(10), refreshesAfter: .seconds(60))
    let tries = Counter()
    func load() async throws {
      let blob = try await cache.load("a", options: options) { throw Refusal(number: tries.increment()) }
      #expect(blob.payload == payload(1))
      try await until { cache.productionCount == 0 }
    }
    for _ in 0..<3 { try await load() }
    #expect(tries.count == 1)
    test.uptime.advance(by: 10)
    try await load()
    #expect(tries.count == 2)
  }

  @Test func aBlobOnDiskIsProducedAnewToo() async throws {
    let (test, cache) = try cacheWithoutMemory()
    try await cache.store(payload(1), for: "a", ttl: .seconds(600))
    test.clock.advance(by: 100)
    #expect(try await cache.load("a", options: options) { payload(2) }.payload == payload(1))
    try await until { cache.productionCount == 0 }
    #expect(try await cache.load("a")?.payload == payload(2))
  }

  @Test func meanwhileTheDiskAnswersAndAFailureIsNobodys() async throws {
    let (test, cache) = try cacheWithoutMemory()
    try await cache.store(payload(1), for: "a", ttl: .seconds(600))
    test.clock.advance(by: 100)
    let (began, latch) = (Latch(), Latch())
    for number in 0..<3 {
      let blob = try await cache.load("a", options: options) {
        began.open()
        await latch.wait()
        throw Refusal(number: number)
      }
      #expect(blob.payload == payload(1))
      await began.wait()
    }
    latch.open()
    try await until { cache.productionCount == 0 }
    #expect(try test.otherStore().load("a")?.payload == payload(1))
  }

  @Test(arguments: [true, false]) func whoFindsNothingWaitsForTheRefresh(hasMemory: Bool) async throws {
    let (test, cache) = try hasMemory ? (test, cache) : cacheWithoutMemory()
    try await cache.store(payload(1), for: "a", ttl: .seconds(600))
    test.clock.advance(by: 100)
    let latch = Latch()
    _ = try await cache.load("a", options: options) {
      await latch.wait()
      return payload(2)
    }
    try await until { cache.productionCount == 1 }
    test.clock.advance(by: 600)
    let late = Task { try await cache.load("a") { throw Refusal(number: 1) } }
    try await until { cache.refreshWaiterCount(of: "a") == 1 }
    latch.open()
    #expect(try await late.value.payload == payload(2))
  }

  /// A view of values replaces a blob that does not decode. A concurrent load of the bytes starts no refresh.
  @Test func nothingIsRefreshedThatIsBeingProduced() async throws {
    try await cache.store(Data("none".utf8), for: "a", ttl: .seconds(600))
    test.clock.advance(by: 100)
    let latch = Latch()
    let numbers = cache.values(of: [Int].self)
    let production = Task {
      try await numbers.value(for: "a") {
        await latch.wait()
        return [1]
      }
    }
    try await until { cache.waiterCount(of: "a") == 1 }
    let refreshed = Counter()
    _ = try await cache.load("a", options: options) {
      refreshed.increment()
      return payload(1)
    }
    #expect(cache.productionCount == 1)
    latch.open()
    #expect(try await production.value == [1])
    try await until { cache.productionCount == 0 }
    #expect(refreshed.count == 0)
  }

  @Test(arguments: [0, 1, 2]) func theLocksStayAsTheyAre(count: UInt32) async throws {
    try await cache.store(payload(1), for: "a", ttl: .seconds(600))
    for _ in 0..<count { try await cache.lock("a") }
    _ = try await cache.load("a")
    test.clock.advance(by: 100)
    #expect(try await cache.load("a", options: options) { payload(2) }.payload == payload(1))
    try await until { cache.productionCount == 0 }
    #expect(try test.otherStore().load("a")?.payload == payload(2))
    #expect(try await UInt32(cache.header(for: "a")?.refCount ?? 9) == count)
  }

  @Test func aRefreshThatAsksForItsOwnKeyDoesNotWaitForItself() async throws {
    try await cache.store(payload(1), for: "a", ttl: .seconds(600))
    test.clock.advance(by: 100)
    let errors = Log<BlobCacheError.Code>()
    _ = try await cache.load("a", options: options) { [cache, test] in
      test.clock.advance(by: 600)
      do {
        return try await cache.load("a") { payload(3) }.payload
      } catch let error as BlobCacheError {
        errors.append(error.code)
        throw error
      }
    }
    try await until { cache.productionCount == 0 }
    #expect(errors.all == [.recursiveProduction])
  }

  /// The load returns the live blob from disk, because the refresh of the key waits for the caller.
  @Test func aProducerIsAnsweredWhatIsBeingRefreshed() async throws {
    let test = try TestCache()
    let cache = try test.cache { $0.memory = nil }
    try await cache.store(payload(1), for: "a", ttl: .seconds(600))
    test.clock.advance(by: 100)
    let options = options
    let answers = Log<Data>()
    _ = try await cache.load("a", options: options) {
      try await cache.load("b") {
        let old = try await cache.load("a", options: options) { payload(3) }.payload
        answers.append(old)
        return old
      }.payload
    }
    try await until { cache.productionCount == 0 }
    #expect(answers.all == [payload(1)])
  }
}
