import BlobCache
import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

private struct Refusal: Error, Equatable {
  let number: Int
}

/// Request coalescing: one producer runs for a key, however many tasks load it.
@Suite struct ProductionTests {
  let test: TestCache
  let cache: BlobCache

  init() throws {
    test = try TestCache()
    cache = try test.cache()
  }

  @Test(.timeLimit(.minutes(30))) func tenThousandLoadsRunOneProducer() async throws {
    let produced = Counter()
    let latch = Latch()
    let tasks = (0..<10_000).map { _ in
      Task { [cache] in
        try await cache.load("a") {
          produced.increment()
          await latch.wait()
          return payload(100)
        }.payload
      }
    }
    try await until { cache.waiterCount(of: "a") == 10_000 }
    latch.open()
    for task in tasks { #expect(try await task.value == payload(100)) }
    #expect(produced.count == 1)
    #expect(cache.productionCount == 0)
    #expect(try test.otherStore().load("a")?.payload == payload(100))
  }

  @Test func whatIsThereIsNotProduced() async throws {
    try await cache.store(payload(5), for: "a")
    cache.removeAllFromMemory()
    let blob = try await cache.load("a") { throw Refusal(number: 0) }
    #expect(blob.payload == payload(5))
  }

  @Test func anErrorReachesAllAndNothingIsStored() async throws {
    let latch = Latch()
    let produced = Counter()
    await withTaskGroup { group in
      for _ in 0..<10 {
        group.addTask { [cache] in
          await #expect(throws: Refusal(number: 1)) {
            try await cache.load("a") {
              await latch.wait()
              throw Refusal(number: produced.increment())
            }
          }
        }
      }
      await #expect(throws: Never.self) { try await until { cache.waiterCount(of: "a") == 10 } }
      latch.open()
    }
    #expect(try await cache.load("a") == nil)
    let blob = try await cache.load("a") { payload(3) }
    #expect(blob.payload == payload(3))
  }

  @Test func oneWhoIsCancelledLeavesTheOthers() async throws {
    let latch = Latch()
    let tasks = (0..<3).map { _ in
      Task { [cache] in
        try await cache.load("a") {
          await latch.wait()
          try Task.checkCancellation()
          return payload(1)
        }
      }
    }
    try await until { cache.waiterCount(of: "a") == 3 }
    // The first task has started the producer.
    tasks[0].cancel()
    await #expect(throws: CancellationError.self) { try await tasks[0].value }
    #expect(cache.waiterCount(of: "a") == 2)
    latch.open()
    #expect(try await tasks[1].value.payload == payload(1))
    #expect(try await tasks[2].value.payload == payload(1))
  }

  @Test func theProducerIsCancelledWhenNobodyWaits() async throws {
    let (began, cancelled) = (Latch(), Latch())
    let tasks = (0..<2).map { _ in
      Task { [cache] in
        try await cache.load("a") {
          began.open()
          return try await withTaskCancellationHandler {
            try await Task.sleep(for: .seconds(1000))
            return payload(1)
          } onCancel: {
            cancelled.open()
          }
        }
      }
    }
    try await until { cache.waiterCount(of: "a") == 2 }
    await began.wait()
    for task in tasks { task.cancel() }
    await cancelled.wait()
    #expect(cache.productionCount == 0)
    #expect(try await cache.load("a") { payload(2) }.payload == payload(2))
  }

  @Test func aCancelledTaskDoesNotBegin() async throws {
    let task = Task { [cache] in
      withUnsafeCurrentTask { $0?.cancel() }
      return try await cache.load("a") { payload(1) }
    }
    await #expect(throws: CancellationError.self) { try await task.value }
    #expect(try await cache.load("a") == nil)
  }

  @Test func aFailureIsRememberedForItsTime() async throws {
    let produced = Counter()
    func load() async throws -> Blob {
      try await cache.load("a", options: ProductionOptions(remembersFailuresFor: .seconds(30))) {
        throw Refusal(number: produced.increment())
      }
    }
    for _ in 0..<3 { await #expect(throws: Refusal(number: 1)) { try await load() } }
    test.uptime.advance(by: 29)
    // The time of day is changed.
    test.clock.advance(by: 1000)
    await #expect(throws: Refusal(number: 1)) { try await load() }
    test.clock.advance(by: -2000)
    test.uptime.advance(by: 1)
    await #expect(throws: Refusal(number: 2)) { try await load() }
    try await cache.store(payload(1), for: "a")
    #expect(try await load().payload == payload(1))
    try await cache.remove("a")
    await #expect(throws: Refusal(number: 3)) { try await load() }
  }

  @Test func aCancellationIsNotRemembered() async throws {
    let options = ProductionOptions(remembersFailuresFor: .seconds(1000))
    await #expect(throws: CancellationError.self) {
      try await cache.load("a", options: options) { throw CancellationError() }
    }
    #expect(try await cache.load("a", options: options) { payload(1) }.payload == payload(1))
  }

  @Test func aDamagedBlobIsProducedAnew() async throws {
    try await cache.store(payload(100), for: "abc")
    cache.removeAllFromMemory()
    try corrupt("ab/abc", at: 80)
    await #expect(throws: BlobStoreError.self) { try await cache.load("abc") }
    #expect(try await cache.load("abc") { payload(7) }.payload == payload(7))
    #expect(try await cache.load("abc")?.payload == payload(7))
  }

  private func corrupt(_ name: String, at offset: Int) throws {
    var bytes = try Data(contentsOf: URL(filePath: test.path(name)))
    bytes[offset] ^= 0xFF
    try bytes.write(to: URL(filePath: test.path(name)))
  }

  @Test func aProducerThatAsksForItsOwnKeyIsAnError() async throws {
    await expect(.recursiveProduction) {
      _ = try await cache.load("a") { [cache] in
        try await cache.load("b") {
          try await cache.load("a") { payload(1) }.payload
        }.payload
      }
    }
  }

  /// Each producer would succeed without the others.
  @Test(.timeLimit(.minutes(30)), arguments: [true, false])
  func producersOfSeveralCallersThatWaitForEachOtherEnd(isCycleOfThree: Bool) async throws {
    let other = try BlobCache(directory: test.outside.path.appending("other"), configuration: test.configuration())
    var places: [(cache: BlobCache, key: BlobKey)] = [(cache, "a"), (cache, "b")]
    if isCycleOfThree { places.append((other, "a")) }
    let begun = Counter()
    let loads = places.indices.map { [places] index in
      Task {
        let (place, next) = (places[index], places[(index + 1) % places.count])
        return try await place.cache.load(place.key) {
          begun.increment()
          try await until { begun.count >= places.count }
          return try await next.cache.load(next.key) { payload(1) }.payload
        }
      }
    }
    for load in loads { await expect(.recursiveProduction) { _ = try await load.value } }
    #expect(try await cache.load("a") { payload(2) }.payload == payload(2))
  }

  @Test func aHigherPriorityOfWhoWaitsReachesTheProducer() async throws {
    let begun = Latch()
    let seen = Log<TaskPriority>()
    let waiting = Task(priority: .low) { [cache] in
      try await cache.load("a") {
        begun.open()
        // Other tests may occupy the threads for long. If the priority never rises, the test fails instead of hanging.
        let end = ContinuousClock.now + .seconds(300)
        while Task.currentPriority < .high, .now < end { try await Task.sleep(for: .milliseconds(1)) }
        seen.append(Task.currentPriority)
        return payload(1)
      }
    }
    await begun.wait()
    if #available(macOS 26, iOS 26, *) { waiting.escalatePriority(to: .high) }
    _ = await waiting.result
    #expect(seen.all == [.high])
  }

  @Test func theSameKeyOfAnotherCacheIsAnotherKey() async throws {
    let other = try BlobCache(directory: test.outside.path.appending("other"), configuration: test.configuration())
    let blob = try await cache.load("a") { try await other.load("a") { payload(3) }.payload }
    #expect(blob.payload == payload(3))
    #expect(other.blobInMemory(for: "a") != nil)
  }

  @Test func aStoreThatFailsReachesWhoAsked() async throws {
    test.disk.fail(.write, .noSpace)
    let error = await #expect(throws: BlobStoreError.self) { try await cache.load("a") { payload(1) } }
    #expect(error?.errno == .noSpace)
    test.disk.fail(.write, nil)
    #expect(try await cache.load("a") { payload(2) }.payload == payload(2))
  }

  @Test(arguments: [BlobCache.Writing.through, .behind(BlobCache.WriteBehind())])
  func whatCannotBeStoredIsAnsweredWhereTheOptionsSaySo(writing: BlobCache.Writing) async throws {
    let test = try TestCache()
    let cache = try test.cache {
      $0.store.limits.payload = 100
      $0.writing = writing
    }
    var events = cache.events.makeAsyncIterator()
    let options = ProductionOptions(ttl: .seconds(60), answersUnstored: true)
    for number in 1...2 {
      let blob = try await cache.load("a", options: options) { payload(101, UInt64(number)) }
      #expect(blob.payload == payload(101, UInt64(number)))
      #expect(blob.header.ttl == 60 && blob.header.payloadSize == 101)
    }
    while let event = await events.next() {
      guard case .writeFailed(let error) = event.kind else { continue }
      #expect(event.key == "a" && (error as? BlobStoreError)?.code == .payloadTooLarge)
      break
    }
    #expect(try await cache.load("a") == nil)
    #expect(try await cache.load("a", options: options) { payload(100) }.payload == payload(100))
    try await cache.flush()
    #expect(try test.otherStore().load("a")?.payload == payload(100))
    await #expect(throws: BlobStoreError.self) {
      try await cache.load("b", options: ProductionOptions(ttl: .seconds(-1), answersUnstored: true)) { payload(1) }
    }
  }

  /// Two stores of one process behave like two processes, because their locks exclude each other.
  @Test func ofTwoProcessesOneProduces() async throws {
    let other = try test.otherStore()
    let release = try #require(try other.tryProductionLock(of: "a"))
    let produced = Counter()
    let task = Task { [cache] in
      try await cache.load("a", options: ProductionOptions(acrossProcesses: true)) {
        produced.increment()
        return payload(2)
      }
    }
    try await Task.sleep(for: .milliseconds(30))
    #expect(produced.count == 0)
    try other.store(payload(1), for: "a")
    #expect(try await task.value.payload == payload(1))
    release()
    #expect(produced.count == 0)
    try await cache.remove("a")
    let blob = try await cache.load("a", options: ProductionOptions(acrossProcesses: true)) { payload(3) }
    #expect(blob.payload == payload(3))
    let again = try #require(try other.tryProductionLock(of: "a"))
    again()
  }

  @Test func whoWaitsForAnotherProcessDoesNotWaitForEver() async throws {
    let release = try #require(try test.otherStore().tryProductionLock(of: "a"))
    let options = ProductionOptions(acrossProcesses: true, waitsForOthers: .milliseconds(20))
    #expect(try await cache.load("a", options: options) { payload(3) }.payload == payload(3))
    release()
  }

  /// A7. Another store writes the blob after the load's first lookup and before the load has the production lock.
  @Test func whoGetsTheProductionLockLooksOnceMore() async throws {
    let other = try test.otherStore()
    try other.store(payload(1), for: "other")
    test.disk.hold(.lockByte)
    let produced = Counter()
    let load = Task { [cache] in
      try await cache.load("a", options: ProductionOptions(acrossProcesses: true)) {
        produced.increment()
        return payload(2)
      }
    }
    try await test.disk.waitForHeld(1)
    try other.store(payload(3), for: "a")
    test.disk.letGo()
    #expect(try await load.value.payload == payload(3))
    #expect(produced.count == 0)
  }

  /// A7. The lock is held until the blob is on disk, where other processes read it.
  @Test(arguments: [BlobCache.Writing.through, .behind(BlobCache.WriteBehind())])
  func whatIsProducedForAllProcessesIsOnDiskWhenTheLockIsGivenBack(writing: BlobCache.Writing) async throws {
    let test = try TestCache()
    let cache = try test.cache { $0.writing = writing }
    let options = ProductionOptions(acrossProcesses: true)
    let other = try test.otherStore()
    try other.store(payload(1), for: "other")
    test.disk.hold(SystemCall.creation)
    let load = Task { try await cache.load("a", options: options) { payload(2) } }
    try await test.disk.waitForHeld(1)
    // The blob is being written, and cannot be read yet.
    #expect(try other.tryProductionLock(of: "a") == nil)
    #expect(try other.load("a") == nil)
    test.disk.letGo()
    #expect(try await load.value.payload == payload(2))
    let release = try #require(try other.tryProductionLock(of: "a"))
    #expect(try other.load("a")?.payload == payload(2))
    release()
  }

  /// A8. A store of the key forgets the failure, even if the blob is never written to disk.
  @Test func aStagedStoreEndsARememberedFailure() async throws {
    let test = try TestCache()
    let cache = try test.cache {
      var writeBehind = BlobCache.WriteBehind()
      writeBehind.delay = .seconds(1000)
      $0.writing = .behind(writeBehind)
    }
    let options = ProductionOptions(remembersFailuresFor: .seconds(1000))
    let refusal = Refusal(number: 1)
    await #expect(throws: refusal) { try await cache.load("a", options: options) { throw refusal } }
    await #expect(throws: refusal) { try await cache.load("a", options: options) { payload(1) } }
    try await cache.store(payload(2), for: "a")
    try await cache.remove("a")
    #expect(try test.otherStore().load("a") == nil)
    #expect(try await cache.load("a", options: options) { payload(3) }.payload == payload(3))
  }

  @Test(arguments: [true, false]) func failuresHeedMemoryPressureAsMemoryDoes(responds: Bool) throws {
    let test = try TestCache()
    let cache = try test.cache { $0.memory?.respondsToMemoryPressure = responds }
    #expect(cache.failuresRespondToMemoryPressure == responds)
  }

  @Test func withoutMemoryNothingWatchesItsPressure() throws {
    let test = try TestCache()
    let cache = try test.cache { $0.memory = nil }
    #expect(!cache.failuresRespondToMemoryPressure)
  }
}
