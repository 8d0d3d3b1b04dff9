import BlobCache
import Foundation
import TestSupport
import Testing

/// A22 to A24: producers set options of their blobs, run up to a limit, and can fail without hiding an expired blob.
@Suite(.timeLimit(.minutes(30))) struct ProducedTests {
  let test: TestCache

  struct Unreachable: Error {}

  init() throws { test = try TestCache() }

  // MARK: - What a producer says

  /// A22.
  @Test func aProducerSaysHowLongItsBlobLives() async throws {
    let cache = try test.cache()
    let options = ProductionOptions(ttl: .seconds(1000))
    _ = try await cache.load("says", options: options) { Produced(payload(3), ttl: .seconds(60), locks: .one) }
    _ = try await cache.load("silent", options: options) { Produced(payload(3)) }
    #expect(try await cache.header(for: "says")?.ttl == 60)
    #expect(try await cache.header(for: "says")?.refCount == 1)
    #expect(try await cache.header(for: "silent")?.ttl == 1000)
    #expect(try await cache.header(for: "silent")?.refCount == 0)
  }

  /// A22a.
  @Test(arguments: [false, true]) func whatIsNotToBeStoredIsAnsweredAndGone(isStaged: Bool) async throws {
    let cache = try test.cache { if isStaged { $0.writing = .behind(.init()) } }
    let produced = Counter()
    for _ in 0..<2 {
      let blob = try await cache.load("a") {
        produced.increment()
        return Produced(payload(3), isStored: false)
      }
      #expect(blob.payload == payload(3))
    }
    #expect(produced.count == 2)
    #expect(cache.blobInMemory(for: "a") == nil)
    #expect(try test.otherStore().load("a") == nil)
  }

  /// A22a: the old blob is neither superseded nor removed.
  @Test func aRefreshThatIsNotToBeStoredLeavesWhatThereIs() async throws {
    let cache = try test.cache()
    try await cache.store(payload(1), for: "a", ttl: .seconds(600))
    test.clock.advance(by: 100)
    let options = ProductionOptions(refreshesAfter: .seconds(60))
    let produced = Counter()
    let answer = try await cache.load("a", options: options) {
      produced.increment()
      return Produced(payload(2), isStored: false)
    }
    #expect(answer.payload == payload(1))
    try await until { cache.productionCount == 0 }
    #expect(produced.count == 1)
    #expect(try await cache.load("a")?.payload == payload(1))
  }

  @Test func aTimeToLiveOfZeroIsRefused() async throws {
    let cache = try test.cache()
    let error = await #expect(throws: BlobStoreError.self) {
      _ = try await cache.load("a") { Produced(payload(1), ttl: .zero) }
    }
    #expect(error?.code == .invalidTimeToLive)
  }

  // MARK: - How many run at once

  /// Loads the keys with producers that wait for the latch. A producer runs or is queued before the next load starts.
  private func startProductions(
    _ keys: [String], in cache: BlobCache, _ begun: Log<String>, endingWith latch: Latch
  ) async throws -> [Task<Blob, any Error>] {
    var tasks: [Task<Blob, any Error>] = []
    for key in keys {
      tasks.append(
        Task {
          try await cache.load(BlobKey(key)) {
            begun.append(key)
            await latch.wait()
            return payload(1)
          }
        })
      try await until { begun.all.count + cache.queuedProductionCount == tasks.count }
    }
    return tasks
  }

  /// A23.
  @Test func soManyProducersRunAtOnce() async throws {
    let cache = try test.cache { $0.maxConcurrentProducers = 2 }
    let (latch, begun) = (Latch(), Log<String>())
    let tasks = try await startProductions(["a", "b", "c", "d"], in: cache, begun, endingWith: latch)
    #expect(begun.all == ["a", "b"])
    latch.open()
    for task in tasks { _ = try await task.value }
    #expect(Set(begun.all) == ["a", "b", "c", "d"])
    #expect(cache.queuedProductionCount == 0)
  }

  /// A23: the queue is first in, first out.
  @Test func thoseThatWaitHaveTheirTurnInOrder() async throws {
    let cache = try test.cache { $0.maxConcurrentProducers = 1 }
    let (latch, begun) = (Latch(), Log<String>())
    let keys = ["first", "second", "third", "fourth"]
    let tasks = try await startProductions(keys, in: cache, begun, endingWith: latch)
    latch.open()
    for task in tasks { _ = try await task.value }
    #expect(begun.all == keys)
  }

  /// A23: a cancelled load leaves the queue, and the next load still gets its turn.
  @Test func aWaitForATurnCanBeCancelled() async throws {
    let cache = try test.cache { $0.maxConcurrentProducers = 1 }
    let (running, latch) = (Latch(), Latch())
    let first = Task {
      try await cache.load("a") {
        running.open()
        await latch.wait()
        return payload(1)
      }
    }
    await running.wait()
    let produced = Counter()
    let second = Task {
      try await cache.load("b") {
        produced.increment()
        return payload(2)
      }
    }
    try await until { cache.queuedProductionCount == 1 }
    second.cancel()
    await #expect(throws: CancellationError.self) { try await second.value }
    try await until { cache.queuedProductionCount == 0 }
    let third = Task { try await cache.load("c") { payload(3) } }
    try await until { cache.queuedProductionCount == 1 }
    latch.open()
    #expect(try await first.value.payload == payload(1))
    #expect(try await third.value.payload == payload(3))
    #expect(produced.count == 0)
  }

  /// A23a: a producer may load another key even if it occupies the only place for a producer.
  @Test func aProducerMayAskForAnotherKey() async throws {
    let cache = try test.cache { $0.maxConcurrentProducers = 1 }
    let blob = try await cache.load("outer") {
      try await cache.load("inner") { payload(2) }.payload
    }
    #expect(blob.payload == payload(2))
  }

  /// A23a: the other key's production waits for the place that the loading producer holds.
  @Test func aProducerMayAskForAKeyThatWaitsForItsTurn() async throws {
    let cache = try test.cache { $0.maxConcurrentProducers = 1 }
    let (running, latch) = (Latch(), Latch())
    let outer = Task {
      try await cache.load("outer") {
        running.open()
        await latch.wait()
        return try await cache.load("queued") { payload(9) }.payload
      }
    }
    await running.wait()
    let queued = Task { try await cache.load("queued") { payload(2) } }
    try await until { cache.queuedProductionCount == 1 }
    latch.open()
    #expect(try await outer.value.payload == payload(2))
    #expect(try await queued.value.payload == payload(2))
  }

  // MARK: - When a producer fails

  /// A24.
  @Test func anExpiredBlobAnswersForAProducerThatFails() async throws {
    let cache = try test.cache()
    let options = ProductionOptions(staleIfError: .seconds(100))
    try await cache.store(payload(4), for: "a", ttl: .seconds(60))
    test.clock.advance(by: 160)
    let events = cache.events
    let blob = try await cache.load("a", options: options) { () -> Data in throw Unreachable() }
    #expect(blob.payload == payload(4))
    // The blob is still expired.
    #expect(try await cache.load("a") == nil)
    test.clock.advance(by: 1)
    await #expect(throws: Unreachable.self) {
      try await cache.load("a", options: options) { () -> Data in throw Unreachable() }
    }
    try await cache.close()
    var stale: [Int] = []
    for await event in events {
      if case .stale(let error) = event.kind {
        #expect(error is Unreachable)
        stale.append(event.byteCount)
      }
    }
    #expect(stale == [4])
  }

  /// A24: without the option, or without a blob, the error is thrown.
  @Test func withoutTheOptionOrTheBlobTheErrorIsThrown() async throws {
    let cache = try test.cache()
    try await cache.store(payload(4), for: "a", ttl: .seconds(60))
    test.clock.advance(by: 61)
    await #expect(throws: Unreachable.self) { try await cache.load("a") { () -> Data in throw Unreachable() } }
    let options = ProductionOptions(staleIfError: .seconds(100))
    try await cache.collect()
    await #expect(throws: Unreachable.self) {
      try await cache.load("a", options: options) { () -> Data in throw Unreachable() }
    }
  }

  /// A24: a blob that cannot be loaded does not replace the error.
  @Test func aDamagedBlobAnswersForNothing() async throws {
    let cache = try test.cache { $0.memory = nil }
    try await cache.store(payload(4), for: "key", ttl: .seconds(60))
    test.clock.advance(by: 61)
    try test.flipLastByte(of: "ke/key")
    await #expect(throws: Unreachable.self) {
      try await cache.load("key", options: ProductionOptions(staleIfError: .seconds(100))) { () -> Data in
        throw Unreachable()
      }
    }
  }

  /// A8, A24.
  @Test func aRememberedFailureIsAnsweredSoToo() async throws {
    let cache = try test.cache()
    let options = ProductionOptions(remembersFailuresFor: .seconds(10), staleIfError: .seconds(100))
    try await cache.store(payload(4), for: "a", ttl: .seconds(60))
    test.clock.advance(by: 61)
    let produced = Counter()
    for _ in 0..<3 {
      let blob = try await cache.load("a", options: options) { () -> Data in
        produced.increment()
        throw Unreachable()
      }
      #expect(blob.payload == payload(4))
    }
    #expect(produced.count == 1)
  }

  /// A24a.
  @Test func aCancelledProducerHasNotFailed() async throws {
    let cache = try test.cache()
    try await cache.store(payload(4), for: "a", ttl: .seconds(60))
    test.clock.advance(by: 61)
    await #expect(throws: CancellationError.self) {
      try await cache.load("a", options: ProductionOptions(staleIfError: .seconds(100))) { () -> Data in
        throw CancellationError()
      }
    }
  }
}
