import BlobRecord
import BlobStore
import Locks
import Posix
import SystemPackage
import TestSupport
import Testing

/// Records the work of a schedule; a pass ends when the test allows it.
private final class Passes: Sendable {
  let time = ManualClock()
  let last = Lock<UnixTime?>(nil)
  let outcomes: AsyncStream<CollectionSchedule.Outcome>
  let begun: AsyncStream<Void>
  private let reported: AsyncStream<CollectionSchedule.Outcome>.Continuation
  private let began: AsyncStream<Void>.Continuation
  private let body: CollectionRunner.Work.Pass

  init(
    _ body: @escaping CollectionRunner.Work.Pass = { _ throws(BlobStoreError) in
      BlobStore.CollectionReport(directory: "cache")
    }
  ) {
    (outcomes, reported) = AsyncStream.makeStream()
    (begun, began) = AsyncStream.makeStream()
    self.body = body
  }

  /// Returns a schedule whose passes are recorded here.
  func schedule(
    _ timing: BlobStore.CollectionTiming, _ clock: ManualScheduleClock, slots: CollectionSlots? = nil
  ) throws -> CollectionSchedule {
    let schedule = CollectionSchedule(of: "cache", timing: timing, slots: slots, clock: clock.clock(), work: work)
    clock.drives(schedule)
    try schedule.start()
    return schedule
  }

  var work: CollectionRunner.Work {
    CollectionRunner.Work(
      time: { self.time.now }, lastPass: { self.last.withLock { $0 } },
      pass: { isStopping throws(BlobStoreError) in
        self.began.yield()
        return try self.body(isStopping)
      },
      report: { self.reported.yield($0) })
  }

  func next() async -> CollectionSchedule.Outcome? {
    for await outcome in outcomes { return outcome }
    return nil
  }

  func nextBegins() async {
    for await _ in begun { return }
  }
}

extension CollectionSchedule.Outcome {
  fileprivate var kind: String {
    switch self {
    case .finished: "finished"
    case .skippedAsRecent: "recent"
    case .skippedAsRunning: "running"
    case .failed: "failed"
    }
  }
}

/// Spec/Semantics.md, C20 to C24.
@Suite(.timeLimit(.minutes(30))) struct ScheduleTests {
  let clock = ManualScheduleClock()

  /// C20.
  @Test func passesAreAnIntervalApart() async throws {
    let passes = Passes()
    let timing = BlobStore.CollectionTiming(interval: .seconds(360), jitter: .zero, firstDelay: .seconds(10))
    let schedule = try passes.schedule(timing, clock)
    clock.advance(by: .seconds(10))
    #expect(await passes.next()?.kind == "finished")
    for _ in 0..<3 {
      clock.advance(by: .seconds(360))
      #expect(await passes.next()?.kind == "finished")
    }
    schedule.stop()
    await schedule.stopped()
  }

  @Test(arguments: [nil, .seconds(30), .zero, .seconds(-5)] as [Duration?])
  func timesOfPassesLieWithinTheJitter(jitter: Duration?) {
    let timing = BlobStore.CollectionTiming(interval: .seconds(100), jitter: jitter, firstDelay: .seconds(-1))
    var table = CollectionTimetable(timing, at: .seconds(7), generator: SeededGenerator(seed: 1))
    #expect(table.due == .seconds(7))
    let most = jitter.map { max($0, .zero) } ?? .seconds(10)
    var waits: Set<Duration> = []
    for _ in 0..<100 {
      table.passEnded(at: .seconds(1000))
      #expect((.seconds(1100) ... .seconds(1100) + most).contains(table.due))
      waits.insert(table.due)
    }
    #expect((waits.count > 50) == (most > .zero))
  }

  @Test(
    arguments: [
      (nil, false), (0, true), (49, true), (50, false), (51, false), (-1, false), (.min, false), (.max, false),
    ] as [(Int64?, Bool)])
  func aPassIsLeftOutAfterAYoungerOne(age: Int64?, isLeftOut: Bool) {
    let timing = BlobStore.CollectionTiming(interval: .seconds(100), jitter: .zero)
    var table = CollectionTimetable(timing, at: .zero, generator: SeededGenerator(seed: 1))
    let time = UnixTime(seconds: 1_700_000_000)
    let last = age.map { age in
      // The extreme values are used as times, not as ages.
      UnixTime(seconds: age == .min || age == .max ? age : time.seconds - age)
    }
    #expect(table.skipsPass(after: last, time: time, at: .seconds(1000)) == isLeftOut)
    #expect(table.due == (isLeftOut ? .seconds(1100 - (age ?? 0)) : .zero))
  }

  /// C21.
  @Test func anotherProcessesPassIsAsGood() async throws {
    let passes = Passes()
    passes.last.withLock { $0 = passes.time.now.advanced(bySeconds: -20) }
    let schedule = try passes.schedule(BlobStore.CollectionTiming(interval: .seconds(100), jitter: .zero), clock)
    #expect(await passes.next()?.kind == "recent")
    passes.time.advance(by: 80)
    clock.advance(by: .seconds(79))
    clock.advance(by: .seconds(1))
    #expect(await passes.next()?.kind == "finished")
    schedule.stop()
    schedule.waitUntilStopped()
  }

  /// C22.
  @Test func aPauseHoldsPassesBack() async throws {
    let passes = Passes()
    let schedule = try passes.schedule(BlobStore.CollectionTiming(jitter: .zero, firstDelay: .seconds(1)), clock)
    schedule.pause()
    clock.advance(by: .seconds(5000))
    schedule.resume()
    #expect(await passes.next()?.kind == "finished")
    clock.advance(by: .seconds(362))
    schedule.pause()
    clock.advance(by: .seconds(1))
    schedule.stop()
    await schedule.stopped()
  }

  /// C23.
  @Test func stoppingEndsThePassInHand() async throws {
    let passes = Passes { isStopping throws(BlobStoreError) in
      while !isStopping() {}
      var report = BlobStore.CollectionReport(directory: "cache")
      report.wasCutShort = true
      return report
    }
    let schedule = try passes.schedule(BlobStore.CollectionTiming(), clock)
    await passes.nextBegins()
    schedule.stop()
    await schedule.stopped()
    guard case .finished(let report)? = await passes.next() else { return #expect(Bool(false), "no report") }
    #expect(report.wasCutShort)
    // A stopped schedule cannot be started again.
    try schedule.start()
    schedule.resume()
    schedule.waitUntilStopped()
  }

  @Test func whatNeverStartedStopsAtOnce() async throws {
    let schedule = CollectionSchedule(
      of: "cache", timing: BlobStore.CollectionTiming(), slots: nil, clock: clock.clock(), work: Passes().work)
    schedule.stop()
    await schedule.stopped()
    schedule.waitUntilStopped()
  }

  /// C24.
  @Test func slotsBoundWhatRunsAtOnce() async throws {
    let running = Lock((now: 0, most: 0))
    let slots = CollectionSlots(2)
    var schedules: [CollectionSchedule] = []
    let all = (0..<6).map { _ in
      Passes { _ throws(BlobStoreError) in
        running.withLock { $0 = ($0.now + 1, max($0.most, $0.now + 1)) }
        SystemClock.sleep(microseconds: 50)
        running.withLock { $0.now -= 1 }
        return BlobStore.CollectionReport(directory: "cache")
      }
    }
    for passes in all {
      schedules.append(try passes.schedule(BlobStore.CollectionTiming(jitter: .zero), clock, slots: slots))
    }
    for _ in 0..<20 {
      for passes in all { #expect(await passes.next()?.kind == "finished") }
      clock.advance(by: .seconds(363))
    }
    for schedule in schedules { schedule.stop() }
    for schedule in schedules { await schedule.stopped() }
    #expect((1...2).contains(running.withLock { $0.most }))
  }

  @Test func whoWaitsForASlotCanBeStopped() async throws {
    let slots = CollectionSlots(1)
    let holder = Passes { isStopping throws(BlobStoreError) in
      while !isStopping() {}
      return BlobStore.CollectionReport(directory: "cache")
    }
    let first = try holder.schedule(BlobStore.CollectionTiming(), clock, slots: slots)
    await holder.nextBegins()
    let second = try Passes().schedule(BlobStore.CollectionTiming(), clock, slots: slots)
    second.stop()
    await second.stopped()
    first.stop()
    await first.stopped()
  }

  /// C22.
  @Test func whoIsPausedWhileItWaitsForASlotBeginsNoPass() async throws {
    let slots = CollectionSlots(1)
    let holder = Passes { isStopping throws(BlobStoreError) in
      while !isStopping() {}
      return BlobStore.CollectionReport(directory: "cache")
    }
    let first = try holder.schedule(BlobStore.CollectionTiming(), clock, slots: slots)
    await holder.nextBegins()
    let begun = Lock(0)
    let passes = Passes { _ throws(BlobStoreError) in
      begun.withLock { $0 += 1 }
      return BlobStore.CollectionReport(directory: "cache")
    }
    let second = try passes.schedule(BlobStore.CollectionTiming(), clock, slots: slots)
    // This is usually long enough for the schedule to queue for the slot; if it is not, the test detects less.
    SystemClock.sleep(microseconds: 50_000)
    second.pause()
    first.stop()
    await first.stopped()
    SystemClock.sleep(microseconds: 50_000)
    #expect(begun.withLock { $0 } == 0)
    second.resume()
    #expect(await passes.next()?.kind == "finished")
    second.stop()
    await second.stopped()
  }

  /// C23.
  @Test func aScheduleThatNobodyHoldsStops() async throws {
    let passes = Passes { isStopping throws(BlobStoreError) in
      while !isStopping() {}
      return BlobStore.CollectionReport(directory: "cache")
    }
    try await begin(passes)
    #expect(await passes.next()?.kind == "finished")
  }

  private func begin(_ passes: Passes) async throws {
    let schedule = CollectionSchedule(
      of: "cache", timing: BlobStore.CollectionTiming(), slots: nil, clock: clock.clock(), work: passes.work)
    try schedule.start()
    await passes.nextBegins()
  }

  @Test func aStoreIsCollectedAgainAndAgain() async throws {
    let cache = try Cache()
    let log = RecordedLog()
    let store = try cache.store { $0.logger = log.logger }
    try store.store(payload(1), for: "expired", ttl: .seconds(1))
    cache.clock.advance(by: 100)
    let (outcomes, reported) = AsyncStream<CollectionSchedule.Outcome>.makeStream()
    let schedule = CollectionSchedule(of: store, timing: BlobStore.CollectionTiming(interval: .seconds(1))) {
      reported.yield($0)
    }
    #expect(log.warnings.contains { $0.contains("raised to 60.0 seconds") })
    try schedule.start()
    for await outcome in outcomes {
      guard case .finished(let report) = outcome else { break }
      #expect(report.expired == 1)
      break
    }
    schedule.stop()
    await schedule.stopped()
  }
}
