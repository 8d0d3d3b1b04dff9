package import BlobRecord
internal import Posix
internal import Synchronization
internal import SystemPackage

/// The state that the thread of a schedule shares with its callers. The thread keeps it alive.
package final class CollectionRunner: Sendable {
  /// What there is to do, and to ask.
  package struct Work: Sendable {
    package let time: @Sendable () -> UnixTime
    package let lastPass: @Sendable () -> UnixTime?
    /// Makes a pass, which ends early when told to.
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
  /// Apart from the rest, because a pass asks for it at every step.
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

  /// A schedule that never ran has stopped when it is told to.
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

  /// Waits for the time of the next pass.
  ///
  /// - Returns: false if there is no next pass.
  private func isDue(_ timetable: CollectionTimetable) -> Bool {
    state.wait { state in
      if isToStop { return .done(false) }
      if state.isPaused { return .wait(nil) }
      let rest = timetable.due - clock.now()
      if rest <= .zero { return .done(true) }
      return .wait(clock.runs ? rest : nil)
    }
  }

  /// Waits for the time of the next pass, and for a slot, which `makePass` gives back.
  ///
  /// - Returns: false if there is no next pass.
  private func begins(_ timetable: CollectionTimetable) -> Bool {
    while isDue(timetable) {
      guard let slots else { return true }
      guard slots.take(unless: { isToStop }) else { return false }
      guard state.wait({ .done($0.isPaused) }) else { return true }
      // Paused while it waited for the slot.
      slots.giveBack()
    }
    return false
  }

  private func makePass(_ timetable: inout CollectionTimetable) -> CollectionSchedule.Outcome {
    defer { slots?.giveBack() }
    // Asked for only now: another process may have made one while this waited for its turn.
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
