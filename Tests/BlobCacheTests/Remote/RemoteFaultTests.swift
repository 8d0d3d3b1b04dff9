@testable import BlobCache
import BlobRecord
import BlobStore
import Foundation
import Locks
import Logging
import TestSupport
import Testing

/// Requirements taken from complaints of other caches' users: R1 to R7 and R12.
@Suite(.timeLimit(.minutes(30))) struct RemoteFaultTests {
  let first: TestCache
  let second: TestCache
  let engine = MemoryEngine(pieceSize: 16)

  init() throws { (first, second) = (try TestCache(), try TestCache()) }

  /// R1: opening a cache sends no request, and does not wait.
  @Test func R1_openingAsksNothing() async throws {
    engine.fault(.hangForGood)
    let cache = try first.node(engine)
    #expect(engine.requests.isEmpty)
    #expect(cache.remoteStatus?.condition == .inUse)
  }

  /// R2: a request has deadlines for its first byte and between bytes; the circuit breaker bounds the sum of all waits.
  @Test(arguments: [MemoryEngine.Fault.hang, .hangForGood, .stall(after: 100)])
  func R2_waitsAreBounded(fault: MemoryEngine.Fault) async throws {
    let keys = (0..<1000).map { BlobKey("key \($0)") }
    let writer = try first.node(engine) { $0.remote?.maxConcurrentChanges = 64 }
    for key in keys.prefix(10) { try await writer.store(payload(500), for: key) }
    engine.fault(fault)
    let cache = try second.node(engine) {
      $0.remote?.deadlines.firstByte = .milliseconds(20)
      $0.remote?.deadlines.progress = .milliseconds(20)
    }
    for key in keys { #expect(try await cache.load(key) == nil) }
    let status = try #require(cache.remoteStatus)
    // The breaker's clock does not advance, so the breaker stays open.
    #expect(status.failures == 5)
    #expect(status.condition == .leftAlone)
    #expect(status.passedOver == 995)
  }

  /// R3: a failure of the engine is a miss and an event; a load never throws it.
  @Test(arguments: [
    RemoteError.Kind.unreachable, .timedOut, .refused, .forbidden, .throttled(nil), .throttled(.seconds(9)), .failed,
    .damaged,
    .unsupported,
  ])
  func R3_aFailureIsAMiss(kind: RemoteError.Kind) async throws {
    engine.fault(.fail(kind))
    let cache = try first.node(engine)
    var events = cache.events.makeAsyncIterator()
    #expect(try await cache.load("key") == nil)
    guard case .remoteFailed(let error) = await events.next()?.kind else {
      Issue.record("no event")
      return
    }
    #expect((error as? RemoteError)?.kind == kind)
    #expect(try await cache.load("key", orStore: { payload(3) }).payload == payload(3))
    let status = try #require(cache.remoteStatus)
    #expect((kind == .forbidden ? status.forbidden : status.failures) >= 1)
  }

  /// T9: a store whose first try has failed waits for the next try, but not for a pause of the circuit breaker.
  @Test func aStoreThatIsTriedAgainDoesNotWaitForAPause() async throws {
    // This clock controls the pauses between tries, so no second try begins before the fifth first try has failed.
    let clock = SteppedClock()
    let cache = try first.node(engine) {
      $0.remote?.maxConcurrentChanges = 5
      $0.remote?.clock = clock
      $0.remote?.deadlines.firstByte = .seconds(1 << 20)
      $0.remote?.deadlines.progress = .seconds(1 << 20)
    }
    engine.fault(.fail(.unreachable))
    // Five first tries fail together. The last failure opens the circuit breaker, whose clock does not advance either.
    engine.hold { [engine] _ in while engine.requests.count < 5 { await Task.yield() } }
    try await withThrowingTaskGroup { group in
      for number in 0..<5 {
        group.addTask { try await cache.store(payload(9), for: BlobKey("\(number) key")) }
      }
      try await group.waitForAll()
    }
    #expect(cache.remoteStatus?.changeCondition == .leftAlone)
    engine.fault(nil as MemoryEngine.Fault?)
    engine.hold(nil)
    first.uptime.advance(by: 60)
    // The changes are still queued.
    try await until {
      clock.advance(by: .seconds(60))
      return engine.objects.count == 5
    }
  }

  /// R4: the engine is tried again, and used when it works again.
  @Test func R4_theEngineComesBack() async throws {
    try await second.node(engine).store(payload(1), for: "key")
    let log = Log<String>()
    let cache = try first.node(engine) {
      $0.remote?.remembersAbsenceFor = .nanoseconds(1)
      $0.store.logger = Logger(label: "test") { _ in WarningLog(log: log) }
    }
    engine.fault(.fail(.unreachable))
    for number in 0..<5 { _ = try await cache.load(BlobKey("\(number) other")) }
    #expect(cache.remoteStatus?.condition == .leftAlone)
    #expect(try await cache.load("key") == nil)
    first.uptime.advance(by: 2)
    #expect(cache.remoteStatus?.condition == .tried)
    #expect(try await cache.load("key") == nil)
    // The trial has failed, which doubles the pause.
    engine.fault(nil as MemoryEngine.Fault?)
    first.uptime.advance(by: 1)
    #expect(try await cache.load("key") == nil)
    first.uptime.advance(by: 1)
    #expect(try await cache.load("key")?.payload == payload(1))
    #expect(cache.remoteStatus?.condition == .inUse)
    // Each of the two changes is reported once.
    #expect(
      log.all == [
        "memory://test was told to fail; it is left alone for a while", "memory://test answers again",
      ])
  }

  /// T4: while one request tries the engine, loads of its key wait for it, and loads of other keys skip the engine.
  @Test func loadsOfTheTriedKeyWait() async throws {
    try await second.node(engine).store(payload(1), for: "key")
    let cache = try first.node(engine)
    engine.fault(.fail(.unreachable))
    for number in 0..<5 { _ = try await cache.load(BlobKey("\(number)")) }
    engine.fault(nil as MemoryEngine.Fault?)
    first.uptime.advance(by: 2)
    let gate = Latch()
    engine.hold { _ in await gate.wait() }
    let trial = Task { try await cache.load("key")?.payload }
    try await until { engine.requests.last == .get("test/v1/ke/key") }
    let other = Task { try await cache.load("key")?.payload }
    let name = Production.Name(key: "key", kind: .fetch)
    try await until { cache.engine.productions.waiterCount(of: name) == 2 }
    #expect(try await cache.load("another") == nil)
    gate.open()
    #expect(try await trial.value == payload(1))
    #expect(try await other.value == payload(1))
    #expect(cache.remoteStatus?.passedOver == 1)
  }

  /// A refusal is caused by settings, so it opens the breaker without further tries.
  @Test func aRefusalOpensAtOnce() async throws {
    engine.fault(.fail(.refused))
    let cache = try first.node(engine)
    for number in 0..<10 { _ = try await cache.load(BlobKey("\(number)")) }
    #expect(engine.requests.count == 1)
    first.uptime.advance(by: 59)
    _ = try await cache.load("another")
    #expect(engine.requests.count == 1)
    first.uptime.advance(by: 2)
    _ = try await cache.load("another")
    #expect(engine.requests.count == 2)
  }

  /// R5: a truncated or damaged body is a miss, and is not stored.
  @Test(
    arguments: [
      .truncate(to: 0), .truncate(to: 63), .truncate(to: 64), .truncate(to: 163), .reset(after: 100), .flip(at: 0),
      .flip(at: 20),
      .flip(at: 40), .flip(at: 62), .flip(at: 64), .flip(at: 163), .answer(Data()), .answer(payload(64)),
      .answer(payload(1000)),
    ] as [MemoryEngine.Fault])
  func R5_aBadBodyIsAMiss(fault: MemoryEngine.Fault) async throws {
    try await first.node(engine).store(payload(100), for: "key")
    engine.fault(fault)
    let cache = try second.node(engine)
    #expect(try await cache.load("key") == nil)
    #expect(try cache.store.usage().records == 0)
    #expect(cache.remoteStatus?.failures == 1)
  }

  /// R5: another key's record is a miss.
  @Test(arguments: [RecordNaming.encoded, .sha256]) func R5_anotherKeysRecordIsAMiss(naming: RecordNaming) async throws
  {
    func node(_ machine: TestCache) throws -> BlobCache {
      try machine.node(engine) { $0.remote?.namespace = RemoteNamespace("test", naming: naming) }
    }
    try await node(first).store(payload(100), for: "one")
    let (one, two) = (
      try RemoteNamespace("test", naming: naming).place(of: "one").name.string,
      try RemoteNamespace("test", naming: naming).place(of: "two").name.string
    )
    engine.set(engine.objects[one], two)
    let cache = try node(second)
    #expect(try await cache.load("two") == nil)
    #expect(cache.remoteStatus?.damaged == 1)
    #expect(try await cache.load("one") != nil)
  }

  /// R6: an upload is tried twice. A dropped one is counted and reported, and the superseded object is removed.
  @Test func R6_aDroppedUploadIsTold() async throws {
    let cache = try first.node(engine) { $0.remote?.breaker.failures = 100 }
    try await cache.store(payload(1), for: "key")
    let puts = Counter()
    engine.fault { request in
      guard case .put = request else { return nil }
      puts.increment()
      return .fail(.failed)
    }
    var events = cache.events.makeAsyncIterator()
    try await cache.store(payload(2), for: "key")
    #expect(puts.count == 2)
    #expect(cache.remoteStatus?.droppedUploads == 1)
    var told: [String] = []
    while told.last != "remoteChangeDropped", let event = await events.next() { told.append("\(event.kind)") }
    #expect(told.count == 4)
    try await until { engine.objects.isEmpty }
    #expect(try await cache.load("key")?.payload == payload(2))
  }

  /// R6: an upload that fails once is tried again.
  @Test func R6_anUploadIsTriedAgain() async throws {
    let count = Counter()
    engine.fault { _ in count.increment() == 1 ? .fail(.failed) : nil }
    let cache = try first.node(engine)
    try await cache.store(payload(1), for: "key")
    #expect(engine.objects.count == 1)
    #expect(cache.remoteStatus?.uploads == 1 && cache.remoteStatus?.droppedUploads == 0)
  }

  /// R6: if too many stores wait, the oldest are dropped first.
  @Test func R6_theOldestStoresGiveWay() async throws {
    let gate = Latch()
    engine.hold { request in if case .put = request { await gate.wait() } }
    let cache = try first.node(engine) {
      $0.remote?.writing = .behind
      $0.remote?.maxConcurrentChanges = 1
      $0.remote?.waitingByteLimit = 10 * (64 + 1000)
    }
    try await cache.store(payload(1000), for: "first")
    try await until { engine.requests.count == 1 }
    for number in 0..<25 { try await cache.store(payload(1000), for: BlobKey("\(number) key")) }
    let status = try #require(cache.remoteStatus)
    #expect(status.droppedUploads == 15)
    #expect(status.waitingBytes == 10 * (64 + 1000))
    gate.open()
    try await until { engine.objects.count == 11 }
    #expect(Set(engine.objects.keys) == Set(["test/v1/fi/first"] + (15..<25).map { "test/v1/\($0)/\($0) key" }))
    try await until { cache.remoteStatus?.waitingChanges == 0 }
  }

  /// R7: a fetched blob that cannot be stored in the directory is still returned.
  @Test func R7_aFetchedBlobThatCannotBeKeptIsAnswered() async throws {
    try await second.node(engine).store(payload(1000), for: "key")
    let cache = try first.node(engine) { $0.store.limits.payload = 500 }
    #expect(try await cache.load("key")?.payload == payload(1000))
    #expect(try await cache.load("key")?.payload == payload(1000))
    #expect(cache.remoteStatus?.hits == 2)
  }

  /// A cancelled load ends immediately, and does not count as a failure of the engine.
  @Test func aCancelledLoadIsNoFailure() async throws {
    engine.fault(.hang)
    let cache = try first.node(engine)
    let load = Task { try await cache.load("key") }
    try await until { engine.requests.count == 1 }
    load.cancel()
    await #expect(throws: CancellationError.self) { try await load.value }
    #expect(cache.remoteStatus?.failures == 0)
    engine.fault(nil as MemoryEngine.Fault?)
    #expect(try await cache.load("key") == nil)
    #expect(cache.remoteStatus?.misses == 1)
  }

  /// Requests that wait for an unreachable engine do not keep a cache open.
  @Test func aHungEngineKeepsNoCacheOpen() async throws {
    engine.fault(.hangForGood)
    let cache = try first.node(engine) {
      $0.remote?.writing = .behind
      $0.remote?.flushesOnCloseFor = .milliseconds(10)
      $0.remote?.maxConcurrentChanges = 1
    }
    for number in 0..<3 { try await cache.store(payload(1), for: BlobKey("\(number) key")) }
    try await cache.close()
    #expect(cache.remoteStatus?.droppedUploads ?? 0 >= 2)
    #expect(engine.isClosed)
  }

  /// T21: `close` tells how many changes the engine has not confirmed: those that wait and those in progress.
  @Test(arguments: [true, false]) func unconfirmedChangesAreLogged(isConfirmed: Bool) async throws {
    let log = Log<String>()
    let cache = try first.node(engine) {
      $0.remote?.writing = .behind
      $0.remote?.maxConcurrentChanges = 1
      $0.store.logger = Logger(label: "test") { _ in WarningLog(log: log) }
    }
    for key in ["a", "b"] as [BlobKey] { try await cache.store(payload(1), for: key) }
    try await until { engine.objects.count == 2 }
    if !isConfirmed { engine.fault(.hang) }
    for number in 0..<3 { try await cache.store(payload(1), for: BlobKey("\(number) key")) }
    for key in ["a", "b"] as [BlobKey] { _ = try await cache.remove(key) }
    try await cache.close(flushingRemoteFor: isConfirmed ? .seconds(300) : .milliseconds(1))
    let message = "closed before memory://test had confirmed 3 stores and 2 removals"
    #expect(log.all == (isConfirmed ? [] : [message]))
    #expect(engine.isClosed)
    let status = try #require(cache.remoteStatus)
    if isConfirmed {
      #expect(status.uploads == 5 && status.removals == 2 && status.droppedUploads + status.droppedRemovals == 0)
    } else {
      #expect(status.droppedRemovals == 2 && status.droppedUploads >= 2)
    }
  }

  /// R2: removals, and the calls after them, do not wait for an unreachable engine, however many there are.
  @Test(arguments: [MemoryEngine.Fault.fail(.failed), .hang]) func R2_removalsDoNotWait(
    fault: MemoryEngine.Fault
  ) async throws {
    let cache = try first.node(engine) {
      $0.remote?.writing = .behind
      $0.remote?.maxConcurrentChanges = 2
      $0.remote?.deadlines.change = .seconds(5)
      $0.remote?.flushesOnCloseFor = .milliseconds(10)
    }
    let keys = (0..<20).map { BlobKey("\($0) key") }
    for key in keys { try await cache.store(payload(1), for: key) }
    try await until { engine.objects.count == 20 }
    engine.fault(fault)
    for key in keys { #expect(try await cache.remove(key) == .done) }
    // A wait for a removal ends when the removal was tried, or is postponed.
    #expect(try await cache.removeEverywhere("another").there == .postponed)
    for key in keys { #expect(try await cache.load(key) == nil) }
    try await cache.close()
  }

  /// A refused removal is reported once, does not stop loads from the engine, and hides the engine's object.
  @Test func aRefusedRemovalIsHidden() async throws {
    let cache = try first.node(engine)
    for key in ["a", "b"] as [BlobKey] { try await cache.store(payload(3), for: key) }
    engine.fault { if case .remove = $0 { .fail(.refused) } else { nil } }
    #expect(try await cache.removeEverywhere("a").there == .dropped)
    #expect(cache.remoteStatus?.droppedRemovals == 1)
    #expect(try await cache.load("a") == nil)
    try cache.store.remove("b")
    cache.removeAllFromMemory()
    #expect(try await cache.load("b")?.payload == payload(3))
    #expect(engine.requests.filter { $0 == .remove("test/v1/a/a") }.count <= 1)
  }

  /// A single store that is larger than the limit of waiting bytes drops no other store.
  @Test func aLargeStoreGoesByTheDirectory() async throws {
    let gate = Latch()
    engine.hold { request in if case .put = request { await gate.wait() } }
    let cache = try first.node(engine) {
      $0.remote?.writing = .behind
      $0.remote?.maxConcurrentChanges = 1
      $0.remote?.waitingByteLimit = 5000
    }
    for number in 0..<4 { try await cache.store(payload(1000), for: BlobKey("\(number) key")) }
    try await cache.store(payload(6000), for: "large")
    gate.open()
    try await until { cache.remoteStatus?.waitingChanges == 0 }
    #expect(cache.remoteStatus?.droppedUploads == 0)
    #expect(engine.objects.count == 5)
  }

  /// A record that has left the directory before its upload removes the engine's earlier blob.
  @Test func whatIsGoneBeforeItsTurnIsRemoved() async throws {
    let cache = try first.node(engine) {
      $0.remote?.writing = .behind
      $0.remote?.maxConcurrentChanges = 1
    }
    try await cache.store(payload(1), for: "key")
    try await until { engine.objects.count == 1 }
    let gate = Latch()
    engine.hold { request in if case .put = request { await gate.wait() } }
    try await cache.store(payload(2), for: "other")
    try await until { engine.requests.last == .put("test/v1/ot/other") }
    try await cache.storeAndLose(payload(3), for: "key")
    gate.open()
    try await until { cache.remoteStatus?.waitingChanges == 0 }
    cache.removeAllFromMemory()
    #expect(Array(engine.objects.keys) == ["test/v1/ot/other"])
    #expect(try await cache.load("key") == nil)
  }

  /// A blob that is visible while it is written removes the old blob, on the engine too.
  @Test func aStreamThatIsGivenUpBringsNothingBack() async throws {
    let cache = try first.node(engine)
    try await cache.store(payload(1), for: "key")
    let writer = try await cache.openWriter(for: "key", visibility: .whileWriting)
    try await writer.append(payload(2))
    try await writer.discard()
    _ = await cache.remoteOutcome(of: "key")
    #expect(try await cache.load("key") == nil)
  }
}
