import BlobCache
import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

/// A cache that is opened while its predecessor still writes staged blobs.
@Suite(.timeLimit(.minutes(30))) struct DepartureTests {
  let test: TestCache

  init() throws { test = try TestCache() }

  private func behind(_ configuration: inout BlobCache.Configuration) {
    var writeBehind = BlobCache.WriteBehind()
    writeBehind.delay = .seconds(1000)
    configuration.writing = .behind(writeBehind)
    configuration.excludesFromBackups = false
    // With one writer, a held write holds all others.
    configuration.maxConcurrentOperations = 1
  }

  /// Releases a cache with a staged blob, which is not written before the disk continues.
  private func leaveStaged() async throws {
    let cache = try test.cache(behind)
    // The first store creates the control file.
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
    // A load that does not wait would have read the disk by then.
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

  /// Exclusive caches have no locks between two stores, so a header written by one would undo a lock of the other.
  @Test func whereSharingIsExclusiveTheNextCacheWaitsForAllTheWork() async throws {
    var cache: BlobCache? = try test.cache { $0.store.access.sharing = .exclusive }
    try await cache?.store(payload(10), for: "a")
    test.clock.advance(by: 2)
    #expect(try await cache?.load("a") != nil)
    // This load is a use, which is written to disk next.
    test.disk.hold(.write)
    cache = nil
    try await test.disk.waitForHeld(1)
    let next = try test.cache { $0.store.access.sharing = .exclusive }
    let count = Counter()
    let load = Task {
      defer { count.increment() }
      // The load does not touch the record, because a touch would wait for the disk anyway.
      return try await next.load("a", touching: false)
    }
    try await Task.sleep(for: .milliseconds(20))
    #expect(count.count == 0)
    test.disk.letGo()
    #expect(try await load.value != nil)
    try await next.close()
  }

  /// Two exclusive caches do not collect concurrently, because neither knows of the other one's stores.
  @Test func whereSharingIsExclusiveTheNextCacheWaitsForTheCollectionUnderWay() async throws {
    func limited(_ configuration: inout BlobCache.Configuration) {
      configuration.store.access.sharing = .exclusive
      configuration.store.limits.count = 4
      // Files are removed only by unlinking them.
      configuration.store.recycling = .off
      configuration.excludesFromBackups = false
    }
    var cache: BlobCache? = try test.cache(limited)
    for key in 0..<4 {
      try await cache?.store(payload(10), for: BlobKey("\(key)"))
      // The first store starts a collection that only counts. It may find unfinished files, and count records twice that
      // are stored meanwhile.
      cache?.store.waitForCollection()
    }
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

  /// A13: staged blobs are on disk when `close` returns, whether or not the cache was the last one.
  @Test func oneIsClosedWhileTheOtherIsLetGo() async throws {
    for round in 0..<200 as Range<UInt64> {
      let first = try test.cache(behind)
      var second: BlobCache? = try test.cache(behind)
      try await first.store(payload(10, round), for: "a")
      let closing = Task { try await first.close() }
      // The second cache is released at a different moment of the close in each round.
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
