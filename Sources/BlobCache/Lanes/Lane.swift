internal import Locks
internal import Posix

/// A small thread pool for blocking calls, with a queue of waiting calls.
///
/// Threads are started on demand, up to the width, and end after an idle time, so an unused cache has no threads. A
/// waiting call can be cancelled; a running one is finished.
package final class Lane: Sendable {
  struct Job: Sendable {
    let queued: ContinuousClock.Instant
    /// Receives the time in the queue.
    let run: @Sendable (Duration) -> Void
    let fail: @Sendable (any Error) -> Void
  }

  fileprivate struct State: Sendable {
    var line = WaitList<Job>(priorities: LanePriority.allCases.count)
    /// The idle threads. The most recent one is last and is woken first, so that the others reach their idle time.
    var idle: [LaneThread] = []
    var threadCount = 0
    /// A Boolean value that indicates whether a thread was woken or started and has not checked the queue yet.
    ///
    /// That thread wakes the next one if the queue contains more than one job, so that not every job wakes a thread.
    var isCalling = false
    var isClosed = false
    var closeWaiters: [CheckedContinuation<Void, Never>] = []
  }

  package let width: Int
  private let idleTime: Duration
  private let prepare: @Sendable () -> Void
  let whenIdle: @Sendable () -> Void
  let seams: LaneSeams
  private let state = Lock(State())

  /// - Parameters:
  ///   - width: The maximum number of threads.
  ///   - idleTime: The time after which an idle thread ends.
  ///   - prepare: Runs on each thread before its first job; it may block.
  ///   - whenIdle: Runs on a thread whose idle time is over, unless another thread of the lane works.
  package init(
    width: Int, idleTime: Duration = .seconds(5), prepare: @escaping @Sendable () -> Void = {},
    whenIdle: @escaping @Sendable () -> Void = {}, seams: LaneSeams = LaneSeams()
  ) {
    self.width = max(width, 1)
    self.idleTime = idleTime
    self.prepare = prepare
    self.whenIdle = whenIdle
    self.seams = seams
  }

  deinit { close() }

  package var threadCount: Int { state.withLock { $0.threadCount } }
  package var waitingCount: Int { state.withLock { $0.line.count } }
}

// MARK: - Work

extension Lane {
  /// Runs a blocking call on a thread of the lane.
  ///
  /// - Parameter body: Receives the time in the queue.
  /// - Throws: Errors of `body`, `CancellationError` if the task was cancelled while it waited, or `closed`.
  package func run<Result: Sendable>(_ body: @escaping @Sendable (Duration) throws -> Result) async throws -> Result {
    let ticket = state.withLock { $0.line.ticket() }
    return try await followingPriority(of: ticket) {
      try await withCancellableContinuation { continuation in
        let isPassedOver = RemoteTier.isPassedOver
        let job = Job(
          queued: .now,
          run: { queueTime in
            continuation.resume(
              with: Swift.Result {
                // Binding a task-local value allocates, which most requests do not need.
                guard isPassedOver else { return try body(queueTime) }
                return try RemoteTier.$isPassedOver.withValue(true) { try body(queueTime) }
              })
          },
          fail: { continuation.resume(throwing: $0) })
        enqueue(job, ticket, LanePriority(Task.currentPriority))
      } onCancel: {
        leave(ticket)
      }
    }
  }

  /// Runs work without a waiting caller; `fail` is called instead if the lane is closed or no thread can be created.
  package func submit(
    _ priority: LanePriority, _ body: @escaping @Sendable () -> Void,
    orFail fail: @escaping @Sendable (any Error) -> Void = { _ in }
  ) {
    let ticket = state.withLock { $0.line.ticket() }
    enqueue(Job(queued: .now, run: { _ in body() }, fail: fail), ticket, priority)
  }

  private func followingPriority<Result: Sendable>(
    of ticket: WaitList<Job>.Ticket, _ body: () async throws -> Result
  ) async throws -> Result {
    guard #available(macOS 26, iOS 26, *) else { return try await body() }
    return try await withTaskPriorityEscalationHandler(operation: body) { _, priority in
      self.state.withLock { $0.line.raise(ticket, to: LanePriority(priority).rawValue) }
    }
  }

  private func leave(_ ticket: WaitList<Job>.Ticket) {
    state.withLock { $0.line.remove(ticket) }?.fail(CancellationError())
  }

  private func enqueue(_ job: Job, _ ticket: WaitList<Job>.Ticket, _ priority: LanePriority) {
    let call = state.withLock { state -> Call? in
      guard !state.isClosed else { return nil }
      state.line.append(job, ticket, priority: priority.rawValue)
      return state.call(width: width)
    }
    guard let call else { return job.fail(BlobCacheError(.closed, "the cache was closed")) }
    make(call)
  }
}

// MARK: - Threads

extension Lane {
  private func startThread() {
    do {
      try seams.willStart()
      let thread = LaneThread()
      try OwnedThread { self.work(on: thread) }
    } catch {
      // Other threads, if any, run the jobs; without threads, the jobs fail.
      let stranded = state.withLock { state -> [Job] in
        state.threadCount -= 1
        state.isCalling = false
        guard state.threadCount == 0 else { return [] }
        var jobs: [Job] = []
        while let job = state.line.popFirst() { jobs.append(job) }
        return jobs
      }
      let failure = BlobCacheError(.noThread, "pthread_create(3): \(error)", cause: error)
      for job in stranded { job.fail(failure) }
      finishClosing()
    }
  }

  fileprivate enum Call {
    case none
    case wake(LaneThread)
    case start
  }

  private func make(_ call: Call) {
    switch call {
    case .none: break
    case .wake(let thread):
      seams.willGive()
      thread.give(.work)
    case .start: startThread()
    }
  }

  private func work(on thread: LaneThread) {
    prepare()
    var isCalled = true
    while let job = next(on: thread, isCalled) {
      isCalled = false
      job.run(job.queued.duration(to: .now))
    }
    finishClosing()
  }

  /// Returns the next job, or `nil` if the thread has to end and was removed from the thread count.
  private func next(on thread: LaneThread, _ isCalled: Bool) -> Job? {
    var isCalled = isCalled
    while true {
      let (job, call, isOver) = state.withLock { state -> (Job?, Call, Bool) in
        if isCalled { state.isCalling = false }
        if let job = state.line.popFirst() { return (job, state.call(width: width), false) }
        if state.isClosed {
          state.threadCount -= 1
        } else {
          state.idle.append(thread)
        }
        return (nil, .none, state.isClosed)
      }
      make(call)
      if job != nil || isOver { return job }
      guard isCalledInTime(thread) else { return nil }
      isCalled = true
    }
  }

  /// Waits for work. Returns `false` if the thread has to end and was removed from the thread count.
  private func isCalledInTime(_ thread: LaneThread) -> Bool {
    if let order = thread.order(within: idleTime) { return isCalled(order) }
    seams.timeIsUp()
    if state.withLock({ $0.idle.count == $0.threadCount }) { whenIdle() }
    let isOver = state.withLock { state in
      // A thread that is no longer idle is just being given an order.
      guard let index = state.idle.firstIndex(where: { $0 === thread }) else { return false }
      state.idle.remove(at: index)
      state.threadCount -= 1
      return true
    }
    return isOver ? false : isCalled(thread.order())
  }

  private func isCalled(_ order: LaneThread.Order) -> Bool {
    if case .work = order { return true }
    // The lane is closed, so no work is added that needs this thread.
    state.withLock { $0.threadCount -= 1 }
    return false
  }
}

extension Lane.State {
  fileprivate mutating func call(width: Int) -> Lane.Call {
    guard !isCalling, !line.isEmpty else { return .none }
    if let thread = idle.popLast() {
      isCalling = true
      return .wake(thread)
    }
    guard threadCount < width else { return .none }
    isCalling = true
    threadCount += 1
    return .start
  }
}

// MARK: - Closing

extension Lane {
  /// Closes the lane for new work; waiting work is still performed.
  package func close() {
    let idle = state.withLock { state in
      state.isClosed = true
      defer { state.idle = [] }
      return state.idle
    }
    for thread in idle { thread.give(.end) }
  }

  /// Returns when a closed lane has performed its work and ended its threads.
  package func closed() async {
    await withCheckedContinuation { (waiter: CheckedContinuation<Void, Never>) in
      state.withLock { $0.closeWaiters.append(waiter) }
      finishClosing()
    }
  }

  private func finishClosing() {
    let waiters = state.withLock { state -> [CheckedContinuation<Void, Never>] in
      guard state.isClosed, state.threadCount == 0 else { return [] }
      defer { state.closeWaiters = [] }
      return state.closeWaiters
    }
    for waiter in waiters { waiter.resume() }
  }
}

/// The order to one idle thread of a lane, for which the thread waits.
private final class LaneThread: Sendable {
  enum Order {
    case work
    case end
  }

  private let given = Monitor<Order?>(nil)

  func give(_ order: Order) { given.change { $0 = order } }

  func order(within duration: Duration) -> Order? {
    let deadline = ContinuousClock.now + duration
    return given.wait { order in
      if let taken = order.take() { return .done(taken) }
      let rest = ContinuousClock.now.duration(to: deadline)
      return rest > .zero ? .wait(rest) : .done(nil)
    }
  }

  func order() -> Order {
    given.wait { order in order.take().map { .done($0) } ?? .wait(nil) }
  }
}

/// The priority of a waiting call in a lane, derived from the priority of its task.
package enum LanePriority: Int, CaseIterable, Sendable {
  case high, medium, low, background

  package init(_ priority: TaskPriority) {
    switch priority {
    case .high...: self = .high
    case .medium...: self = .medium
    case .low...: self = .low
    default: self = .background
    }
  }
}
