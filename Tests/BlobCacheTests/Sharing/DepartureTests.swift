import BlobCache
import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

/// A cache that is made while the one before it still writes what was staged.
@Suite(.timeLimit(.minutes(30))) struct DepartureTests {
  let test: TestCache

  init() throws { test = try TestCache() }

  private func behind(_ configuration: inout BlobCache.Configuration) {
    var writeBehind = BlobCache.WriteBehind()
    writeBehind.delay = .seconds(1000)
    configuration.writing = .behind(writeBehind)
    configuration.excludesFromBackups = false
    // One writer, so that what holds it holds all.
    configuration.maxConcurrentOperations = 1
  }

  /// Lets a cache go that has a blob staged, which is not written before the disk is let go.
  private func leaveStaged() async throws {
    let cache = try test.cache(behind)
    // The control file is made by the first.
    try await cache.store(payload(1), for: "first")
    try await cache.flush()
    test.disk.hold(.publication)
    try await cache.store(payload(1), for: "held")
    try await cache.store(payload(10, 1), for: "a")
  }

  @Test(arguments: [true, false]) func theNextCacheFindsWhatWasStaged(isBehind: Bool) async throws {
    try await leaveStaged()
    try await test.disk.waitForHeld(1)
    let cache = try test.cache { if isBehind { behind(&$0) } }
    let load = Task { try await cache.load("a") }
    // One that does not wait would have looked by then.
    try await Task.sleep(for: .milliseconds(20))
    test.disk.letGo()
    #expect(try await load.value?.payload == payload(10, 1))
    try await cache.close()
  }

  @Test func oneInBetweenThatHasNothingToWriteChangesNothing() async throws {
    try await leaveStaged()
    try await test.disk.waitForHeld(1)
    _ = try test.cache()
    _ = try test.cache(behind)
    let cache = try test.cache()
    let load = Task { try await cache.load("a") }
    try await Task.sleep(for: .milliseconds(20))
    test.disk.letGo()
    #expect(try await load.value?.payload == payload(10, 1))
  }

  /// Nothing keeps the changes of two stores apart there: a header that the one writes would undo the other one's lock.
  @Test func whereSharingIsExclusiveTheNextCacheWaitsForAllTheWork() async throws {
    var cache: BlobCache? = try test.cache { $0.store.access.sharing = .exclusive }
    try await cache?.store(payload(10), for: "a")
    test.clock.advance(by: 2)
    #expect(try await cache?.load("a") != nil)
    // That was a use, of which the disk is told now.
    test.disk.hold(.write)
    cache = nil
    try await test.disk.waitForHeld(1)
    let next = try test.cache { $0.store.access.sharing = .exclusive }
    let count = Counter()
    let load = Task {
      defer { count.increment() }
      // Without a touch, which would have to wait for the disk anyway.
      return try await next.load("a", touching: false)
    }
    try await Task.sleep(for: .milliseconds(20))
    #expect(count.count == 0)
    test.disk.letGo()
    #expect(try await load.value != nil)
    try await next.close()
  }

  /// Nor two collections, one of which knows nothing of the other one's stores.
  @Test func whereSharingIsExclusiveTheNextCacheWaitsForTheCollectionUnderWay() async throws {
    func limited(_ configuration: inout BlobCache.Configuration) {
      configuration.store.access.sharing = .exclusive
      configuration.store.limits.count = 4
      // Nothing is removed but by being unlinked.
      configuration.store.recycling = .off
      configuration.excludesFromBackups = false
    }
    var cache: BlobCache? = try test.cache(limited)
    for key in 0..<4 { try await cache?.store(payload(10), for: BlobKey("\(key)")) }
    // The first store has started one that only counts, and that finds files in the making.
    cache?.store.waitForCollection()
    test.disk.hold(.unlink)
    try await cache?.store(payload(10), for: "4")
    try await test.disk.waitForHeld(1)
    cache = nil
    let next = try test.cache(limited)
    let count = Counter()
    let load = Task {
      defer { count.increment() }
      return try await next.load("4")
    }
    try await Task.sleep(for: .milliseconds(50))
    #expect(count.count == 0)
    test.disk.letGo()
    #expect(try await load.value != nil)
    try await next.close()
  }

  /// A13: when `close` returns, the staged blobs are on disk, whether or not the cache was the last.
  @Test func oneIsClosedWhileTheOtherIsLetGo() async throws {
    for round in 0..<200 as Range<UInt64> {
      let first = try test.cache(behind)
      var second: BlobCache? = try test.cache(behind)
      try await first.store(payload(10, round), for: "a")
      let closing = Task { try await first.close() }
      // Some time after that has begun, each time another.
      let moment = ContinuousClock.now + .microseconds(round)
      while ContinuousClock.now < moment {}
      second = nil
      _ = second
      try await closing.value
      #expect(try test.otherStore().load("a")?.payload == payload(10, round))
    }
  }

  @Test func whatTheNextCacheStoresIsLater() async throws {
    try await leaveStaged()
    try await test.disk.waitForHeld(1)
    let cache = try test.cache()
    let store = Task { try await cache.store(payload(10, 2), for: "a") }
    try await Task.sleep(for: .milliseconds(20))
    test.disk.letGo()
    try await store.value
    try await cache.close()
    #expect(try test.otherStore().load("a")?.payload == payload(10, 2))
  }

  @Test func aWriteThatFailsDoesNotKeepTheNextCacheWaiting() async throws {
    do {
      let cache = try test.cache(behind)
      try await cache.store(payload(10), for: "a")
      test.disk.fail(.write, .noSpace)
    }
    #expect(try await test.cache().load("a") == nil)
  }

  @Test func withoutAThreadToWriteTheNextCacheDoesNotWait() async throws {
    do {
      let cache = try test.cache(behind)
      cache.failThreads(with: .resourceTemporarilyUnavailable)
      try await cache.store(payload(10), for: "a")
    }
    #expect(try await test.cache().load("a") == nil)
  }
}
