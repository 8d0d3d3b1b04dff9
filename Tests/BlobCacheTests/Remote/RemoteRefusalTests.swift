@testable import BlobCache
import BlobRecord
import BlobStore
import Foundation
import Locks
import Logging
import TestSupport
import Testing

/// Refusals that concern one object, and failures that concern one kind of request.
@Suite(.timeLimit(.minutes(30))) struct RemoteRefusalTests {
  let first: TestCache
  let second: TestCache
  let engine = MemoryEngine()

  init() throws { (first, second) = (try TestCache(), try TestCache()) }

  private func count(_ isIncluded: (MemoryEngine.Request) -> Bool) -> Int { engine.requests.filter(isIncluded).count }

  private static func isPut(_ request: MemoryEngine.Request) -> Bool {
    if case .put = request { true } else { false }
  }

  private static func isRemoval(_ request: MemoryEngine.Request) -> Bool {
    if case .remove = request { true } else { false }
  }

  /// T17: a load that the engine does not allow is a counted miss, logged and reported once. The others go on.
  @Test func aForbiddenLoadIsAMiss() async throws {
    try await second.node(engine).store(payload(1), for: "key")
    let log = Log<String>()
    let cache = try first.node(engine) {
      $0.store.logger = Logger(label: "test") { _ in WarningLog(log: log) }
    }
    var events = cache.events.makeAsyncIterator()
    engine.fault { if case .get("test/v1/ke/key") = $0 { nil } else { .fail(.forbidden) } }
    for number in 0..<10 { #expect(try await cache.load(BlobKey("\(number) absent")) == nil) }
    #expect(try await cache.load("key")?.payload == payload(1))
    let status = try #require(cache.remoteStatus)
    #expect(status.condition == .inUse && status.passedOver == 0)
    #expect(status.misses == 10 && status.forbidden == 10 && status.failures == 0 && status.hits == 1)
    #expect(log.all == ["memory://test was told to fail"])
    var reported = 0
    while let event = await events.next(), event.key != "key" {
      if case .remoteFailed(let error) = event.kind {
        reported += 1
        #expect((error as? RemoteError)?.kind == .forbidden)
      }
    }
    #expect(reported == 1)
    // The absence is remembered like that of any other miss.
    let requests = engine.requests.count
    #expect(try await cache.load("9 absent") == nil)
    #expect(engine.requests.count == requests)
  }

  /// T17: a forbidden store or removal is counted and reported, is not sent again, and stops no other.
  @Test func aForbiddenChangeIsDropped() async throws {
    let log = Log<String>()
    let cache = try first.node(engine) {
      $0.store.logger = Logger(label: "test") { _ in WarningLog(log: log) }
    }
    try await cache.store(payload(1), for: "old")
    engine.fault { request in
      switch request {
      case .put("test/v1/ba/bad"), .put("test/v1/wo/worse"), .remove("test/v1/ol/old"): .fail(.forbidden)
      default: nil
      }
    }
    try await cache.store(payload(2), for: "bad")
    try await cache.store(payload(2), for: "worse")
    #expect(try await cache.removeEverywhere("old").there == .dropped)
    try await cache.store(payload(2), for: "good")
    #expect(try await cache.removeEverywhere("good").there == .done)
    let status = try #require(cache.remoteStatus)
    #expect(status.changeCondition == .inUse)
    #expect(status.droppedUploads == 2 && status.droppedRemovals == 1)
    #expect(status.forbidden == 3 && status.failures == 3)
    #expect(count { $0 == .put("test/v1/ba/bad") } == 1)
    // A store and a removal are each logged once.
    #expect(log.all == Array(repeating: "memory://test was told to fail", count: 2))
    // The engine still has the removed object, so no load asks for it.
    #expect(try await cache.load("old") == nil)
    #expect(count { $0 == .get("test/v1/ol/old") } == 0)
  }

  /// M6: the refusal of one key's lease does not stop the leases of others.
  @Test func aForbiddenLeaseStopsNoOthers() async throws {
    let cache = try first.node(engine) { $0.remote?.leases = .init() }
    engine.fault { if case .lease = $0 { .fail(.forbidden) } else { nil } }
    for number in 0..<6 { _ = try await cache.load(BlobKey("\(number)"), orStore: { payload(1) }) }
    #expect(count { if case .lease = $0 { true } else { false } } == 6)
  }

  /// T16: removals that succeed do not hide that all stores fail, so the sum of all waits is bounded.
  @Test func removalsDoNotExcuseStores() async throws {
    let cache = try first.node(engine)
    try await cache.store(payload(1), for: "old")
    engine.fault { Self.isPut($0) ? .fail(.failed) : nil }
    for number in 0..<20 { try await cache.store(payload(1), for: BlobKey("\(number) key")) }
    // The breaker's clock does not advance, so the breaker stays open after the fifth failure.
    #expect(count(Self.isPut) == 1 + 5)
    #expect(cache.remoteStatus?.changeCondition == .leftAlone)
    #expect(try await cache.removeEverywhere("old").there == .done)
    #expect(engine.objects.isEmpty)
  }

  /// T16: removals that fail do not stop stores.
  @Test func storesGoOnWithoutRemovals() async throws {
    let cache = try first.node(engine) { $0.remote?.breaker.failures = 1 }
    try await cache.store(payload(1), for: "old")
    engine.fault { Self.isRemoval($0) ? .fail(.unreachable) : nil }
    #expect(try await cache.removeEverywhere("old").there == .postponed)
    #expect(cache.remoteStatus?.changeCondition == .leftAlone)
    try await cache.store(payload(1), for: "new")
    #expect(engine.objects["test/v1/ne/new"] != nil)
    #expect(count(Self.isRemoval) == 1)
  }

  /// A store whose record is gone becomes a removal, and waits until removals are sent again.
  @Test func aStoreOfNothingWaitsForRemovals() async throws {
    let clock = SteppedClock()
    let cache = try first.node(engine) {
      $0.remote?.writing = .behind
      $0.remote?.maxConcurrentChanges = 1
      $0.remote?.breaker.failures = 1
      $0.remote?.clock = clock
      $0.remote?.deadlines.change = .seconds(1 << 20)
    }
    for key in ["old", "key"] as [BlobKey] { try await cache.store(payload(1), for: key) }
    try await until { engine.objects.count == 2 }
    engine.fault { Self.isRemoval($0) ? .fail(.unreachable) : nil }
    _ = try await cache.remove("old")
    try await until { count(Self.isRemoval) == 1 && cache.remoteStatus?.changeCondition == .leftAlone }
    let gate = Latch()
    engine.hold { if Self.isPut($0) { await gate.wait() } }
    try await cache.store(payload(2), for: "other")
    try await until { engine.requests.last == .put("test/v1/ot/other") }
    try await cache.storeAndLose(payload(3), for: "key")
    gate.open()
    try await until { engine.objects["test/v1/ot/other"] != nil }
    // Stores go on while the two removals wait.
    try await cache.store(payload(2), for: "another")
    try await until { cache.remoteStatus?.waitingChanges == 2 }
    #expect(engine.objects.count == 4)
    engine.fault(nil as MemoryEngine.Fault?)
    first.uptime.advance(by: 60)
    try await until {
      clock.advance(by: .seconds(60))
      return engine.objects.count == 2
    }
  }

  /// T7: a removal is tried until it succeeds. A store is tried twice.
  @Test func aRemovalIsTriedMoreThanTwice() async throws {
    let clock = SteppedClock()
    let cache = try first.node(engine) {
      $0.remote?.writing = .behind
      $0.remote?.breaker.failures = 100
      $0.remote?.clock = clock
      $0.remote?.deadlines.change = .seconds(1 << 20)
    }
    try await cache.store(payload(1), for: "key")
    try await until { engine.objects.count == 1 }
    let removals = Counter()
    engine.fault { Self.isRemoval($0) && removals.increment() <= 5 ? .fail(.failed) : nil }
    _ = try await cache.remove("key")
    try await until {
      clock.advance(by: .seconds(60))
      return engine.objects.isEmpty
    }
    #expect(removals.count == 6)
    #expect(cache.remoteStatus?.droppedRemovals == 0)
  }

  /// T18: a damaged object is requested again after a minute, however it was seen to be damaged.
  @Test(arguments: [true, false]) func aDamagedObjectIsLeftForAMinute(byHeader: Bool) async throws {
    try await second.node(engine).store(payload(100), for: "key")
    engine.set(payload(200), "test/v1/ke/key")
    let cache = try first.node(engine)
    if byHeader {
      #expect(try await cache.remoteHeader(for: "key") == nil)
    } else {
      #expect(try await cache.load("key") == nil)
    }
    first.uptime.advance(by: 59)
    #expect(try await cache.load("key") == nil)
    #expect(engine.requests.count == 2)
    first.uptime.advance(by: 2)
    #expect(try await cache.load("key") == nil)
    #expect(engine.requests.count == 3)
    #expect(cache.remoteStatus?.damaged == 2)
  }

  /// A record that cannot be read here says nothing about the engine, so it does not end a row of failures.
  @Test func aLocalFailureIsNotTheEngines() async throws {
    let cache = try first.node(engine) { $0.remote?.breaker.failures = 2 }
    let unreadable = try #require(
      #expect(throws: BlobStoreError.self) { try cache.store.store(payload(1), for: "") })
    engine.fault { request in
      guard case .put(let name) = request else { return nil }
      return name.hasSuffix("unreadable") ? .error(unreadable) : .fail(.unsupported)
    }
    try await cache.store(payload(1), for: "unreadable")
    #expect(cache.remoteStatus?.failures == 1 && cache.remoteStatus?.droppedUploads == 1)
    #expect(cache.remoteStatus?.changeCondition == .inUse)
    let uploads = Counter()
    engine.fault { request in
      guard case .put = request else { return nil }
      return uploads.increment() == 2 ? .error(unreadable) : .fail(.failed)
    }
    // The first try fails, the second cannot be read, and the first try of the other key opens the breaker.
    try await cache.store(payload(2), for: "one")
    #expect(cache.remoteStatus?.changeCondition == .inUse)
    try await cache.store(payload(2), for: "two")
    #expect(cache.remoteStatus?.changeCondition == .leftAlone)
    #expect(uploads.count == 3)
  }
}
