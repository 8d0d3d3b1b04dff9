import BlobCache
import Foundation
import Logging
import TestSupport
import Testing

/// A19: only waits of producers that form a cycle are refused.
@Suite(.timeLimit(.minutes(30))) struct RecursionTests {
  let test: TestCache
  let cache: BlobCache

  init() throws {
    test = try TestCache()
    cache = try test.cache()
  }

  /// Starts a load in a producer that does not wait for it.
  private func loadBegun(
    by key: BlobKey, loading other: BlobKey, after latch: Latch
  ) async throws -> Task<Data, any Error> {
    let tasks = Log<Task<Data, any Error>>()
    _ = try await cache.load(key) { [cache] in
      tasks.append(
        Task {
          await latch.wait()
          return try await cache.load(other) { payload(7) }.payload
        })
      return payload(1)
    }
    return try #require(tasks.all.first)
  }

  @Test func aTaskThatOutlivesItsProducerIsNone() async throws {
    let latch = Latch()
    let task = try await loadBegun(by: "a", loading: "a", after: latch)
    try await cache.remove("a")
    let (began, end) = (Latch(), Latch())
    // The task waits for another production of the key.
    let second = Task { [cache] in
      try await cache.load("a") {
        began.open()
        await end.wait()
        return payload(2)
      }
    }
    await began.wait()
    latch.open()
    try await until { cache.waiterCount(of: "a") == 2 }
    end.open()
    #expect(try await task.value == payload(2))
    #expect(try await second.value.payload == payload(2))
  }

  /// A wait for a key closes no cycle with the waits of an earlier production of the key, which has ended.
  @Test func whatATaskWaitsForAfterTheEndClosesNoCircle() async throws {
    let (begun, end) = (Latch(), Latch())
    let tasks = Log<Task<Data, any Error>>()
    let inner = Task { [cache] in
      try await cache.load("ends b") {
        begun.open()
        await end.wait()
        // This closes no cycle: the first production of "ends a" has ended, although a task of it still waits.
        return try await cache.load("ends a") { payload(9) }.payload
      }
    }
    await begun.wait()
    _ = try await cache.load("ends a") { [cache] in
      tasks.append(Task { try await cache.load("ends b") { payload(8) }.payload })
      try await until { cache.waiterCount(of: "ends b") == 2 }
      return payload(1)
    }
    #expect(cache.productionWaitCount(of: ["ends a", "ends b"]) == 0)
    try await cache.remove("ends a")
    // The key is produced again, and the producer of "ends b" waits for it.
    end.open()
    #expect(try await inner.value.payload == payload(9))
    #expect(try await #require(tasks.all.first).value == payload(9))
  }

  @Test func anAbandonedProducerMayAskForItsKey() async throws {
    let (began, end) = (Latch(), Latch())
    let answers = Log<Data>()
    let over = Latch()
    let load = Task { [cache] in
      try await cache.load("a") {
        defer { over.open() }
        began.open()
        await end.wait()
        // The task was cancelled, and ignores that.
        let data = try await Task { try await cache.load("a") { payload(2) }.payload }.value
        answers.append(data)
        return data
      }
    }
    await began.wait()
    load.cancel()
    await #expect(throws: CancellationError.self) { try await load.value }
    end.open()
    await over.wait()
    #expect(answers.all == [payload(2)])
    #expect(try await cache.load("a")?.payload == payload(2))
  }

  @Test func aChildTaskOfAProducerIsSeenThrough() async throws {
    await expect(.recursiveProduction) {
      _ = try await cache.load("a") { [cache] in
        try await withThrowingTaskGroup { group in
          group.addTask { try await cache.load("a") { payload(1) }.payload }
          return try #require(try await group.next())
        }
      }
    }
    await expect(.recursiveProduction) {
      _ = try await cache.load("a") { [cache] in
        try await Task { try await cache.load("a") { payload(1) }.payload }.value
      }
    }
  }

  @Test func aDetachedTaskThatNobodyWaitsForGetsTheBlob() async throws {
    let tasks = Log<Task<Data, any Error>>()
    let blob = try await cache.load("a") { [cache] in
      tasks.append(Task.detached { try await cache.load("a") { payload(2) }.payload })
      try await until { cache.waiterCount(of: "a") == 2 }
      return payload(1)
    }
    #expect(blob.payload == payload(1))
    #expect(try await #require(tasks.all.first).value == payload(1))
  }

  /// Waits between productions are forgotten when they end.
  @Test func waitsLeaveNothingBehind() async throws {
    let keys: Set<BlobKey> = ["waits a", "waits b", "waits c"]
    let seen = Log<Int>()
    _ = try await cache.load("waits a") { [cache] in
      _ = try await cache.load("waits b") {
        seen.append(cache.productionWaitCount(of: keys))
        return payload(1)
      }
      seen.append(cache.productionWaitCount(of: keys))
      let (began, cancelled) = (Latch(), Latch())
      let load = Task {
        try await cache.load("waits c") {
          began.open()
          await cancelled.wait()
          return payload(1)
        }
      }
      await began.wait()
      seen.append(cache.productionWaitCount(of: keys))
      load.cancel()
      _ = await load.result
      seen.append(cache.productionWaitCount(of: keys))
      cancelled.open()
      return payload(1)
    }
    #expect(seen.all == [1, 0, 1, 0])
    #expect(cache.productionWaitCount(of: keys) == 0)
  }

  @Test func aWaitOfTwoTasksEndsWithTheSecond() async throws {
    let keys: Set<BlobKey> = ["twice a", "twice b"]
    let seen = Log<Int>()
    let latch = Latch()
    _ = try await cache.load("twice a") { [cache] in
      let loads = (0..<2).map { _ in
        Task {
          try await cache.load("twice b") {
            await latch.wait()
            return payload(1)
          }
        }
      }
      try await until { cache.waiterCount(of: "twice b") == 2 }
      loads[0].cancel()
      _ = await loads[0].result
      seen.append(cache.productionWaitCount(of: keys))
      latch.open()
      _ = try await loads[1].value
      seen.append(cache.productionWaitCount(of: keys))
      return payload(1)
    }
    #expect(seen.all == [1, 0])
  }

  /// A producer that waits for itself like this looks like a slow one. The test releases it in the end.
  @Test func aWarningTellsOfAProducerThatWaitsForItselfThroughADetachedTask() async throws {
    let test = try TestCache()
    let log = Log<String>()
    let cache = try test.cache {
      $0.productionPatience = .milliseconds(1)
      $0.store.logger = Logger(label: "test") { _ in WarningLog(log: log) }
    }
    let load = Task {
      try await cache.load("a key") {
        let detached = Task.detached { try await cache.load("a key") { payload(2) }.payload }
        try await until { log.all.contains { $0.contains("a key") } }
        detached.cancel()
        _ = await detached.result
        return payload(1)
      }
    }
    #expect(try await load.value.payload == payload(1))
    #expect(log.all.count { $0.contains("a key") } == 1)
  }

  @Test func nothingWarnsOfAProducerThatEndsInTime() async throws {
    let test = try TestCache()
    let log = Log<String>()
    let cache = try test.cache {
      $0.productionPatience = .seconds(1_000_000)
      $0.store.logger = Logger(label: "test") { _ in WarningLog(log: log) }
    }
    let latch = Latch()
    let loads = (0..<3).map { _ in
      Task {
        try await cache.load("a key") {
          await latch.wait()
          return payload(1)
        }
      }
    }
    try await until { cache.waiterCount(of: "a key") == 3 }
    latch.open()
    for load in loads { _ = try await load.value }
    #expect(!log.all.contains { $0.contains("a key") })
  }
}
