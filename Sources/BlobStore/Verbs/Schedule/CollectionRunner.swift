package import BlobRecord
internal import Posix
internal import Synchronization
internal import SystemPackage

/// The state that the thread of a schedule shares with its callers. The thread keeps it alive.
package final class CollectionRunner: Sendable {
  package struct Work: Sendable {
    package let time: @Sendable () -> UnixTime
    package let lastPass: @Sendable () -> UnixTime?
    /// Runs a pass, which ends early on request.
    package let pass: Pass
    package let report: @Sendable (CollectionSchedule.Outcome) -> Void

    package typealias Pass =
      @Sendable (_ isStopping: @escaping @Sendable () -> Bool) throws(BlobStoreError) -> BlobStore.CollectionReport

    package init(
      time: @escaping @Sendable () -> UnixTime, lastPass: @escaping @Sendable () -> UnixTime?, pass: @escaping Pass,
      report: @escaping @Sendable (CollectionSchedule.Outcome) -> Void
    ) {
      self.time = time
      self.lastPass = lastPass
      self.pass = pass
      self.report = report
    }
  }

  private struct State: Sendable {
    var isStarted = false
    var isPaused = false
    var hasStopped = false
    var waiters: [CheckedContinuation<Void, Never>] = []
  }

  private let timing: BlobStore.CollectionTiming
  private let slots: CollectionSlots?
  private let clock: ScheduleClock
  private let work: Work
  private let state = Monitor(State())
  /// Separate from the state, because a pass checks it at every step.
  private let isStopping = Atomic(false)

  init(timing: BlobStore.CollectionTiming, slots: CollectionSlots?, clock: ScheduleClock, work: Work) {
    self.timing = timing
    self.slots = slots
    self.clock = clock
    self.work = work
  }

  private var isToStop: Bool { isStopping.load(ordering: .acquiring) }
}

// MARK: - Commands

extension CollectionRunner {
  func start() throws(Errno) {
    try state.change { state throws(Errno) in
      guard !state.isStarted, !isToStop else { return }
      let timetable = CollectionTimetable(timing, at: clock.now(), generator: clock.generator)
      try OwnedThread { self.run(by: timetable) }
      state.isStarted = true
    }
  }

  func pause(_ isPaused: Bool) {
    state.change { $0.isPaused = isPaused }
  }

  func stop() {
    state.change { _ in isStopping.store(true, ordering: .releasing) }
    slots?.wake()
  }

  func wake() {
    state.change { _ in }
  }

  func waitUntilStopped() {
    state.wait { state in isOver(state) ? .done(()) : .wait(nil) }
  }

  func stopped() async {
    await withCheckedContinuation { (waiter: CheckedContinuation<Void, Never>) in
      let hasStopped = state.change { state in
        if isOver(state) { return true }
        state.waiters.append(waiter)
        return false
      }
      if hasStopped { waiter.resume() }
    }
  }

  /// A schedule that never ran counts as stopped immediately after the request to stop.
  private func isOver(_ state: State) -> Bool {
    state.hasStopped || (!state.isStarted && isToStop)
  }
}

// MARK: - The thread

extension CollectionRunner {
  private func run(by timetable: CollectionTimetable) {
    var timetable = timetable
    while begins(timetable) { work.report(makePass(&timetable)) }
    let waiters = state.change { state in
      state.hasStopped = true
      defer { state.waiters = [] }
      return state.waiters
    }
    for waiter in waiters { waiter.resume() }
  }

  /// Waits for the time of the next pass. Returns `false` if there will be none.
  private func isDue(_ timetable: CollectionTimetable) -> Bool {
    state.wait { state in
      if isToStop { return .done(false) }
      if state.isPaused { return .wait(nil) }
      let rest = timetable.due - clock.now()
      if rest <= .zero { return .done(true) }
      return .wait(clock.runs ? rest : nil)
    }
  }

  /// Waits for the time of the next pass and for a slot, which `makePass` returns. `false` means no next pass.
  private func begins(_ timetable: CollectionTimetable) -> Bool {
    while isDue(timetable) {
      guard let slots else { return true }
      guard slots.take(unless: { isToStop }) else { return false }
      guard state.wait({ .done($0.isPaused) }) else { return true }
      // The schedule was paused while it waited for the slot.
      slots.giveBack()
    }
    return false
  }

  private func makePass(_ timetable: inout CollectionTimetable) -> CollectionSchedule.Outcome {
    defer { slots?.giveBack() }
    // This is checked only now, because another process may have made a pass while this one waited.
    if let last = work.lastPass(), timetable.skipsPass(after: last, time: work.time(), at: clock.now()) {
      return .skippedAsRecent(lastPass: last)
    }
    defer { timetable.passEnded(at: clock.now()) }
    do {
      return .finished(try work.pass { self.isToStop })
    } catch {
      return error.code == .collectionRunning ? .skippedAsRunning(error) : .failed(error)
    }
  }
}

/// The due time of a schedule's next pass, on a monotonic clock. It neither waits nor reads a clock.
package struct CollectionTimetable: Sendable {
  private let interval: Duration
  private let jitter: Duration
  private var generator: any RandomNumberGenerator & Sendable
  package private(set) var due: Duration

  package init(_ timing: BlobStore.CollectionTiming, at now: Duration, generator: any RandomNumberGenerator & Sendable)
  {
    interval = timing.effectiveInterval
    jitter = timing.effectiveJitter
    due = now + max(timing.firstDelay, .zero)
    self.generator = generator
  }

  /// Schedules the next pass an interval after the end of this one, so that a pass that takes longer than the
  /// interval is not immediately followed by another.
  package mutating func passEnded(at now: Duration) {
    due = now + interval + delay()
  }

  /// Returns whether the due pass is skipped because some process has collected the directory recently.
  ///
  /// The next pass is then due an interval after that one. A last pass in the future is ignored, because a clock must
  /// have been wrong.
  package mutating func skipsPass(after lastPass: UnixTime?, time: UnixTime, at now: Duration) -> Bool {
    guard let lastPass, lastPass <= time else { return false }
    let (seconds, overflow) = time.seconds.subtractingReportingOverflow(lastPass.seconds)
    let age: Duration = .seconds(overflow ? .max : seconds)
    guard age < interval / 2 else { return false }
    due = now + interval - age + delay()
    return true
  }

  private mutating func delay() -> Duration {
    jitter * Double.random(in: 0...1, using: &generator)
  }
}
