import BlobCache
import Foundation
import Locks
import Posix
import SystemPackage
import TestSupport
import Testing

/// The thread pool that waits for the disk has few threads, divided into lanes.
@Suite struct LaneTests {
  /// The number of bodies that run concurrently, and its maximum.
  private final class Gauge: Sendable {
    private let state = Lock((now: 0, most: 0))

    func enter() {
      state.withLock { state in
        state.now += 1
        state.most = max(state.most, state.now)
      }
    }

    func leave() { state.withLock { $0.now -= 1 } }
    var most: Int { state.withLock { $0.most } }
    var now: Int { state.withLock { $0.now } }
  }

  /// Occupies all threads of a lane until the gate opens.
  private func block(_ lane: Lane, _ gate: Gate) async throws {
    for _ in 0..<lane.width { lane.submit(.high) { gate.wait() } }
    try await until { lane.waitingCount == 0 }
  }

  @Test(.timeLimit(.minutes(30))) func aHundredThousandOperationsTakeNoMoreThreadsThanTheWidth() async throws {
    let lane = Lane(width: 4)
    let gauge = Gauge()
    // This does not use a task group, because the `next` of a group with a hundred thousand children occasionally
    // misses one (seen with Swift 6.3.1, also when Dispatch resumes them).
    let tasks = (0..<100_000).map { number in
      Task {
        try await lane.run { _ in
          gauge.enter()
          defer { gauge.leave() }
          return number
        }
      }
    }
    var sum = 0
    for task in tasks { sum += try await task.value }
    #expect(sum == 99_999 * 100_000 / 2)
    #expect(gauge.most <= 4)
    #expect(lane.threadCount <= 4)
    #expect(lane.waitingCount == 0)
  }

  @Test func threadsEndWhenThereIsNothingToDo() async throws {
    let lane = Lane(width: 4, idleTime: .milliseconds(10))
    for _ in 0..<3 {
      #expect(try await lane.run { _ in 1 } == 1)
      try await until { lane.threadCount == 0 }
    }
  }

  /// A lane is idle when all its threads are.
  @Test(.timeLimit(.minutes(30))) func anIdleLaneReportsIt() async throws {
    let (idle, gate) = (Counter(), Gate())
    let lane = Lane(width: 2, idleTime: .milliseconds(1), whenIdle: { idle.increment() })
    lane.submit(.medium) { gate.wait() }
    try await until { lane.threadCount == 1 && lane.waitingCount == 0 }
    // The job occupies the first thread, so a second one is started, and ends.
    for _ in 0..<3 {
      #expect(try await lane.run { _ in 1 } == 1)
      try await until { lane.threadCount == 1 }
    }
    #expect(idle.count == 0)
    gate.open()
    try await until { lane.threadCount == 0 }
    #expect(idle.count > 0)
  }

  @Test func whatWaitsIsDoneByPriorityAndThenInOrder() async throws {
    let lane = Lane(width: 1)
    let gate = Gate()
    try await block(lane, gate)
    let order = Log<Int>()
    for (number, priority) in [LanePriority.background, .low, .medium, .medium, .high].enumerated() {
      lane.submit(priority) { order.append(number) }
    }
    gate.open()
    try await until { order.all.count == 5 }
    #expect(order.all == [4, 2, 3, 1, 0])
  }

  @Test func theTasksPriorityIsTheJobs() async throws {
    let lane = Lane(width: 1)
    let gate = Gate()
    try await block(lane, gate)
    let order = Log<String>()
    func add(_ name: String, _ priority: TaskPriority, waiting: Int) async throws -> Task<Void, any Error> {
      let task = Task.detached(priority: priority) {
        try await lane.run { _ in order.append(name) }
      }
      try await until { lane.waitingCount == waiting }
      return task
    }
    let low = try await add("low", .low, waiting: 1)
    let high = try await add("high", .high, waiting: 2)
    gate.open()
    // Waiting for the tasks earlier would raise their priority.
    try await until { order.all.count == 2 }
    #expect(order.all == ["high", "low"])
    try await low.value
    try await high.value
  }

  @Test func whoIsCancelledLeavesTheLineAtOnce() async throws {
    let lane = Lane(width: 1)
    let gate = Gate()
    try await block(lane, gate)
    let ran = Counter()
    let tasks = (0..<100).map { _ in Task { try await lane.run { _ in ran.increment() } } }
    try await until { lane.waitingCount == 100 }
    for task in tasks { task.cancel() }
    for task in tasks { await #expect(throws: CancellationError.self) { try await task.value } }
    #expect(lane.waitingCount == 0)
    gate.open()
    try await lane.run { _ in }
    #expect(ran.count == 0)
  }

  /// A4: the cancellation handler runs before the job is in the queue.
  @Test func whoIsCancelledBeforeItStandsInLineDoesNotStandThere() async throws {
    let lane = Lane(width: 1)
    let gate = Gate()
    try await block(lane, gate)
    let ran = Counter()
    let task = Task {
      while !Task.isCancelled { await Task.yield() }
      _ = try await lane.run { _ in ran.increment() }
    }
    task.cancel()
    let result = Log<Bool>()
    let waiter = Task { result.append(await task.result.isCancelled) }
    // Either the task has left the queue, or it completes once the lane is free, and was not cancelled.
    try await until { !result.all.isEmpty || lane.waitingCount == 1 }
    gate.open()
    await waiter.value
    #expect(result.all == [true])
    try await lane.run { _ in }
    #expect(ran.count == 0)
    #expect(lane.waitingCount == 0)
  }

  /// A thread whose idle timeout has expired still takes a job that arrives just before it checks.
  @Test(.timeLimit(.minutes(30))) func aJobIsDoneByAThreadWhoseTimeIsUp() async throws {
    let (isUp, isTaken) = (Gate(), Gate())
    let lane = Lane(
      width: 1, idleTime: .milliseconds(1),
      seams: LaneSeams(
        willGive: { isTaken.open() },
        timeIsUp: {
          isUp.open()
          isTaken.wait()
        }))
    let ran = Counter()
    lane.submit(.medium) { ran.increment() }
    try await until { ran.count == 1 }
    await withCheckedContinuation { done in
      Thread.detachNewThread {
        isUp.wait()
        done.resume()
      }
    }
    lane.submit(.medium) { ran.increment() }
    try await until { ran.count == 2 }
    lane.close()
    await lane.closed()
    #expect(lane.threadCount == 0)
  }

  /// The thread that is being woken runs all jobs that arrive in the meantime.
  @Test(.timeLimit(.minutes(30))) func jobsThatComeMeanwhileWakeNoThread() async throws {
    let (calls, ran, lanes, duringTheFirst) = (Counter(), Counter(), Log<Lane>(), Log<Int>())
    let lane = Lane(
      width: 2,
      seams: LaneSeams(willGive: {
        guard calls.increment() == 1 else { return }
        for _ in 0..<3 { lanes.all[0].submit(.medium) { ran.increment() } }
        duringTheFirst.append(calls.count)
      }))
    lanes.append(lane)
    // A thread that has just finished a job may not be idle yet.
    var submitted = 0
    while calls.count == 0 {
      lane.submit(.medium) { ran.increment() }
      submitted += 1
      let awaited = submitted
      try await until { ran.count >= awaited }
    }
    try await until { ran.count == submitted + 3 }
    #expect(duringTheFirst.all == [1])
    #expect(lane.waitingCount == 0)
  }

  /// Each job waits for all others, so a single thread would wait forever.
  @Test(.timeLimit(.minutes(30)), arguments: [2, 4, 16]) func aThreadThatFindsMoreCallsTheNext(width: Int) async throws
  {
    let lane = Lane(width: width)
    for _ in 0..<20 {
      let (gate, begun) = (Gate(), Counter())
      for _ in 0..<width {
        lane.submit(.medium) {
          if begun.increment() == width { gate.open() }
          gate.wait()
        }
      }
      try await until { begun.count == width }
    }
    #expect(lane.threadCount == width)
  }

  @Test func whatHasBegunIsFinished() async throws {
    let lane = Lane(width: 1)
    let (began, gate) = (Latch(), Gate())
    let task = Task {
      try await lane.run { _ in
        began.open()
        gate.wait()
        return 7
      }
    }
    await began.wait()
    task.cancel()
    gate.open()
    #expect(try await task.value == 7)
  }

  @Test func aClosedLaneDoesWhatWaitsAndTakesNoMore() async throws {
    let lane = Lane(width: 1)
    let gate = Gate()
    try await block(lane, gate)
    let waiting = Task { try await lane.run { _ in 1 } }
    try await until { lane.waitingCount == 1 }
    lane.close()
    let refusals = Counter()
    lane.submit(.high) {
    } orFail: { _ in
      refusals.increment()
    }
    #expect(refusals.count == 1)
    gate.open()
    await expect(.closed) { try await lane.run { _ in } }
    #expect(try await waiting.value == 1)
    await lane.closed()
    #expect(lane.threadCount == 0)
  }

  @Test func anErrorReachesTheCaller() async throws {
    let lane = Lane(width: 1)
    await #expect(throws: Errno.ioError) { try await lane.run { _ in throw Errno.ioError } }
  }

  @Test func withoutThreadsWhatWaitsIsRefused() async throws {
    let lane = Lane(width: 2)
    lane.failThreads(with: .resourceTemporarilyUnavailable)
    let failures = Counter()
    lane.submit(.high) {
    } orFail: { _ in
      failures.increment()
    }
    #expect(failures.count == 1)
    let error = await expect(.noThread) { try await lane.run { _ in } }
    #expect(error?.cause as? Errno == .resourceTemporarilyUnavailable)
    #expect(lane.threadCount == 0)
    lane.failThreads(with: nil)
    #expect(try await lane.run { _ in 1 } == 1)
  }

  // MARK: - The lanes of a cache

  @Test func loadsDoNotWaitBehindRemovalsOrCollections() async throws {
    let test = try TestCache()
    let cache = try test.cache {
      $0.maxConcurrentOperations = 1
      $0.store.recycling = .off
    }
    for number in 0..<20 { try await cache.store(payload(10), for: BlobKey("key \(number)")) }
    try await cache.store(payload(10), for: "old", ttl: .seconds(1))
    cache.removeAllFromMemory()
    test.clock.advance(by: 5)
    test.disk.hold(.unlink)
    let removals = (0..<10).map { number in Task { try await cache.remove(BlobKey("key \(number)")) } }
    let collection = Task { try await cache.collect() }
    try await test.disk.waitForHeld(2)
    for number in 10..<20 { #expect(try await cache.load(BlobKey("key \(number)")) != nil) }
    test.disk.letGo()
    for removal in removals { #expect(try await removal.value == .done) }
    #expect(try await collection.value.expired == 1)
  }

  @Test func aCacheHasFewThreads() async throws {
    let test = try TestCache()
    let cache = try test.cache { $0.maxConcurrentOperations = 4 }
    #expect(cache.threadCount == 0)
    try await cache.store(payload(10), for: "a")
    let most = Gauge()
    try await withThrowingTaskGroup { group in
      for number in 0..<2000 {
        group.addTask {
          _ = try await cache.load(BlobKey("absent \(number)"))
          if cache.threadCount > 10 { most.enter() }
        }
      }
      try await group.waitForAll()
    }
    #expect(most.most == 0)
  }
}

extension Result {
  fileprivate var isCancelled: Bool {
    guard case .failure(let error) = self else { return false }
    return error is CancellationError
  }
}
