import BlobCache
import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

/// The events that a cache reports to listeners.
@Suite struct EventTests {
  let test: TestCache
  let cache: BlobCache

  init() throws {
    test = try TestCache()
    cache = try test.cache()
  }

  /// Returns the events of `body`, one word for each.
  private func events(_ body: () async throws -> Void) async throws -> [String] {
    let events = cache.events
    try await body()
    try await cache.close()
    var words: [String] = []
    for await event in events { words.append(word(event)) }
    return words
  }

  private func word(_ event: CacheEvent) -> String {
    let key = event.key.map { " \($0.string)" } ?? ""
    return switch event.kind {
    case .stored(let staged): "\(staged ? "staged" : "stored")\(key) \(event.byteCount)"
    case .written: "written\(key) \(event.byteCount)"
    case .hit(let tier): "hit in \(tier)\(key) \(event.byteCount)"
    case .miss: "miss\(key)"
    case .stale: "stale\(key) \(event.byteCount)"
    case .expired(let tier): "expired in \(tier)\(key)"
    case .evicted(let tier): "evicted in \(tier)\(key)"
    case .removed: "removed\(key)"
    case .extendedDataReplaced: "extended data of\(key)"
    case .fetched: "fetched\(key) \(event.byteCount)"
    case .uploaded: "uploaded\(key) \(event.byteCount)"
    case .remoteFailed: "failed remotely\(key)"
    case .remoteChangeDropped: "dropped\(key)"
    case .damaged: "damaged\(key)"
    case .produced: "produced\(key) \(event.byteCount)"
    case .writeFailed: "failed\(key)"
    case .collected(let report): "collected \(report.expired)"
    }
  }

  @Test func eachVerbIsTold() async throws {
    let events = try await events {
      try await cache.store(payload(10), for: "a", ttl: .seconds(60))
      _ = try await cache.load("a")
      cache.removeAllFromMemory()
      _ = try await cache.load("a")
      _ = try await cache.load("b")
      test.clock.advance(by: 61)
      _ = try await cache.load("a")
      try await cache.collect()
      _ = try await cache.load("c") { payload(5) }
      try await cache.remove("c")
    }
    #expect(
      events == [
        "stored a 10", "hit in memory a 10", "hit in disk a 10", "miss b", "expired in memory a", "miss a",
        "expired in disk a", "collected 1",
        "miss c", "produced c 5", "stored c 5", "removed c",
      ])
  }

  @Test func damageIsTold() async throws {
    let events = try await events {
      try await cache.store(payload(10), for: "abc")
      cache.removeAllFromMemory()
      try Data([1, 2, 3]).write(to: URL(filePath: test.path("ab/abc")))
      await #expect(throws: BlobStoreError.self) { try await cache.load("abc") }
    }
    #expect(events == ["stored abc 10", "damaged abc"])
  }

  @Test func damageThatAChooserComesUponIsTold() async throws {
    let events = try await events {
      try await cache.store(payload(10), for: "abc")
      try test.flipLastByte(of: "ab/abc")
      await #expect(throws: BlobStoreError.self) { try await cache.load(prefix: "a") { $0.first } }
    }
    #expect(events == ["stored abc 10", "damaged abc"])
  }

  /// A13: if a staged blob cannot be written after its cache was released, an event reports it.
  @Test func whatFailsAfterTheCacheIsGoneIsTold() async throws {
    let test = try TestCache()
    var cache: BlobCache? = try test.cache {
      var writeBehind = BlobCache.WriteBehind()
      writeBehind.delay = .seconds(1000)
      $0.writing = .behind(writeBehind)
    }
    let events = try #require(cache?.events)
    try await cache?.store(payload(10), for: "a")
    test.disk.fail(.write, .noSpace)
    cache = nil
    var words: [String] = []
    for await event in events { words.append(word(event)) }
    // A store without free space starts a collection.
    #expect(words.filter { !$0.hasPrefix("collected") } == ["staged a 10", "failed a"])
  }

  /// A17, A20: the events of loads that produce, and of staged stores.
  private func events(
    of test: TestCache, _ change: (inout BlobCache.Configuration) -> Void = { _ in },
    _ body: (BlobCache) async throws -> Void
  ) async throws -> [String] {
    let cache = try test.cache(change)
    let events = cache.events
    try await body(cache)
    try await until { cache.productionCount == 0 }
    try await cache.close()
    return await events.reduce(into: []) { $0.append(word($1)) }
  }

  @Test(arguments: [true, false]) func eachLoadIsOneHitOrOneMissThoughItLooksMoreThanOnce(across: Bool) async throws {
    let options = ProductionOptions(acrossProcesses: across)
    let events = try await events(of: TestCache()) { cache in
      _ = try await cache.load("a", options: options) { payload(5) }
      _ = try await cache.load("a", options: options) { payload(6) }
      cache.removeAllFromMemory()
      _ = try await cache.load("a", options: options) { payload(7) }
    }
    #expect(
      events == ["miss a", "produced a 5", "stored a 5", "hit in memory a 5", "hit in disk a 5"])
  }

  @Test func whoWaitsForAnotherProcessMissesOnce() async throws {
    let test = try TestCache()
    let other = try test.otherStore()
    let release = try #require(try other.tryProductionLock(of: "a"))
    let events = try await events(of: test) { cache in
      let load = Task { try await cache.load("a", options: ProductionOptions(acrossProcesses: true)) { payload(5) } }
      // The load repeats its lookup after each try to acquire the lock.
      let reads = test.disk.count(.openBeneath)
      try await until { test.disk.count(.openBeneath) >= reads + 4 }
      try other.store(payload(9), for: "a")
      #expect(try await load.value.payload == payload(9))
    }
    release()
    #expect(events == ["miss a"])
  }

  @Test(arguments: [true, false]) func whoJoinsAProductionIsCountedToo(isThere: Bool) async throws {
    let test = try TestCache()
    if isThere { try test.otherStore().store(payload(5), for: "a") }
    let latch = Latch()
    let events = try await events(of: test) { cache in
      if isThere { test.disk.hold(.openBeneath) }
      let loads = (0..<3).map { _ in
        Task {
          try await cache.load("a") {
            await latch.wait()
            return payload(5)
          }
        }
      }
      try await until { cache.waiterCount(of: "a") == 3 }
      test.disk.letGo()
      latch.open()
      for load in loads { _ = try await load.value }
    }
    #expect(events.count { $0 == "hit in disk a 5" } == (isThere ? 3 : 0))
    #expect(events.count { $0 == "miss a" } == (isThere ? 0 : 3))
    #expect(events.count { $0.hasPrefix("produced") || $0.hasPrefix("stored") } == (isThere ? 0 : 2))
  }

  @Test func whoJoinsAProductionThatFailsHasMissed() async throws {
    let latch = Latch()
    let events = try await events(of: TestCache()) { cache in
      let loads = (0..<2).map { _ in
        Task {
          try await cache.load("a") {
            await latch.wait()
            throw CancellationError()
          }
        }
      }
      try await until { cache.waiterCount(of: "a") == 2 }
      latch.open()
      for load in loads { _ = await load.result }
    }
    #expect(events == ["miss a", "miss a"])
  }

  @Test func whoHasToProduceBesideAnotherMissesOnce() async throws {
    let latch = Latch()
    let events = try await events(of: TestCache()) { cache in
      let first = Task {
        try await cache.load("a") {
          await latch.wait()
          return Data("none".utf8)
        }
      }
      try await until { cache.waiterCount(of: "a") == 1 }
      let second = Task { try await cache.values(of: [Int].self).value(for: "a") { [1] } }
      try await until { cache.waiterCount(of: "a") == 2 }
      latch.open()
      _ = try await first.value
      #expect(try await second.value == [1])
    }
    #expect(events.count { $0 == "miss a" } == 2)
    #expect(events.count { $0.hasPrefix("hit") } == 0)
  }

  /// A6: a blob that does not decode is a miss.
  @Test func whatDoesNotDecodeIsAMiss() async throws {
    let events = try await events(of: TestCache()) { cache in
      try await cache.store(Data("none".utf8), for: "a")
      _ = try await cache.values(of: [Int].self).value(for: "a") { [1] }
    }
    #expect(events == ["stored a 4", "damaged a", "miss a", "produced a 3", "stored a 3"])
  }

  @Test func aRefreshIsNoLoad() async throws {
    let test = try TestCache()
    let events = try await events(of: test) { cache in
      try await cache.store(payload(5), for: "a", ttl: .seconds(600))
      test.clock.advance(by: 100)
      let options = ProductionOptions(ttl: .seconds(600), refreshesAfter: .seconds(60))
      _ = try await cache.load("a", options: options) { payload(6) }
    }
    #expect(events == ["stored a 5", "hit in memory a 5", "produced a 6", "stored a 6"])
  }

  @Test func aChooserThatTakesNothingIsAMiss() async throws {
    let events = try await events(of: TestCache()) { cache in
      _ = try await cache.load(prefix: "a") { $0.first }
    }
    #expect(events == ["miss"])
  }

  @Test func aStagedStoreIsOneStore() async throws {
    let events = try await events(of: TestCache(), { $0.writing = .behind(BlobCache.WriteBehind()) }) { cache in
      try await cache.store(payload(5), for: "a")
      try await cache.flush()
      _ = try await cache.load("b") { payload(6) }
      try await cache.flush()
    }
    #expect(
      events == ["staged a 5", "written a 5", "miss b", "produced b 6", "staged b 6", "written b 6"])
  }

  @Test func timesAreMeasuredWhileSomebodyListens() async throws {
    var events = cache.events.makeAsyncIterator()
    test.disk.slow(.write, by: .milliseconds(5))
    try await cache.store(payload(10), for: "a")
    let event = try #require(await events.next())
    #expect(event.duration >= .milliseconds(5))
    #expect(event.queueTime > .zero)
  }

  @Test func anyNumberListensAndTheSlowLoseTheOldest() async throws {
    let (slow, other) = (cache.events(bufferSize: 3), cache.events)
    for number in 0..<10 { try await cache.store(payload(number), for: "a") }
    try await cache.close()
    #expect(await slow.reduce(into: []) { $0.append($1.byteCount) } == [7, 8, 9])
    #expect(await other.reduce(0) { count, _ in count + 1 } == 10)
  }

  @Test func memoryTellsWhatItEvicts() async throws {
    let test = try TestCache()
    let cache = try test.cache { $0.memory?.countLimit = 1 }
    let events = cache.events
    try await cache.store(payload(10), for: "a")
    try await cache.store(payload(10), for: "b")
    try await cache.close()
    let words: [String] = await events.reduce(into: []) { $0.append(word($1)) }
    #expect(words == ["stored a 10", "evicted in memory a", "stored b 10"])
  }

  @Test func whatACollectionRemovesIsToldOneByOne() async throws {
    let events = try await events {
      try await cache.store(payload(10), for: "brief", ttl: .seconds(1))
      try await cache.store(payload(20), for: "large", ttl: .seconds(1000))
      try await cache.store(payload(10), for: "damaged", ttl: .seconds(1000))
      let path = try cache.filePath(for: "damaged").string
      try Data([1, 2, 3]).write(to: URL(filePath: path))
      try FileManager.default.setAttributes(
        [.modificationDate: Date(timeIntervalSince1970: Double(test.clock.now.seconds))], ofItemAtPath: path)
      test.clock.advance(by: 700)
      try await cache.collect()
      try await cache.trim(to: .payloads(upTo: 15))
    }
    #expect(events.prefix(3) == ["stored brief 10", "stored large 20", "stored damaged 10"])
    #expect(Set(events[3..<5]) == ["expired in disk brief", "damaged damaged"])
    #expect(events.dropFirst(5) == ["collected 1", "evicted in disk large", "collected 0"])
  }

  @Test func whatAStoresOwnCollectionEvictsIsTold() async throws {
    let test = try TestCache()
    let cache = try test.cache { $0.store.limits.count = 10 }
    let events = cache.events
    for number in 0..<11 {
      try await cache.store(payload(1), for: BlobKey("key \(number)"))
      // A record that is stored while the first collection counts may be counted twice, and evict more.
      cache.store.waitForCollection()
      test.clock.advance(by: 1)
    }
    try await cache.close()
    var evicted: Set<String> = []
    var reports: [BlobStore.CollectionReport] = []
    for await event in events {
      if word(event).hasPrefix("evicted") { evicted.insert(word(event)) }
      if case .collected(let report) = event.kind { reports.append(report) }
    }
    #expect(evicted == ["evicted in disk key 0", "evicted in disk key 1"])
    // The first store may have started a collection that only counts.
    #expect(reports.reduce(0) { $0 + $1.evicted } == 2)
  }
}
