internal import Locks
internal import Posix

/// A few threads for calls that block, and the line of calls that wait for one.
///
/// Threads start when they are needed, up to the width, and end after a while without work. So an unused cache has
/// none. A waiting call can leave the line. A call that a thread has begun is finished.
package final class Lane: Sendable {
  /// One piece of work.
  struct Job: Sendable {
    let queued: ContinuousClock.Instant
    /// Receives how long it has waited.
    let run: @Sendable (Duration) -> Void
    /// Called instead of `run`.
    let fail: @Sendable (any Error) -> Void
  }

  fileprivate struct State: Sendable {
    var line = WaitList<Job>(priorities: LanePriority.allCases.count)
    /// Threads that wait for work, the latest last, which is woken first.
    ///
    /// So the others come to their end.
    var idle: [LaneThread] = []
    var threadCount = 0
    /// Whether a thread was woken or started that has not looked for work yet.
    ///
    /// It calls the next one if it finds more than its own job. So jobs that come meanwhile wake no thread each.
    var isCalling = false
    var isClosed = false
    var closeWaiters: [CheckedContinuation<Void, Never>] = []
  }

  package let width: Int
  private let idleTime: Duration
  private let prepare: @Sendable () -> Void
  let seams: LaneSeams
  private let state = Lock(State())

  /// - Parameters:
  ///   - width: threads at the most.
  ///   - idleTime: how long a thread waits for work before it ends.
  ///   - prepare: what each thread does before its first job; it may block.
  ///   - seams: where tests step in.
  package init(
    width: Int, idleTime: Duration = .seconds(5), prepare: @escaping @Sendable () -> Void = {},
    seams: LaneSeams = LaneSeams()
  ) {
    self.width = max(width, 1)
    self.idleTime = idleTime
    self.prepare = prepare
    self.seams = seams
  }

  deinit { close() }

  /// Threads that there are now.
  package var threadCount: Int { state.withLock { $0.threadCount } }
  /// Jobs that no thread has taken yet.
  package var waitingCount: Int { state.withLock { $0.line.count } }
}

// MARK: - Work

extension Lane {
  /// Runs a call that blocks, when it is its turn.
  ///
  /// - Parameter body: receives how long it has waited.
  /// - Throws: what `body` throws; `CancellationError` if the task was cancelled while it waited; `closed`.
  package func run<Result: Sendable>(_ body: @escaping @Sendable (Duration) throws -> Result) async throws -> Result {
    let ticket = state.withLock { $0.line.ticket() }
    return try await followingPriority(of: ticket) {
      try await withCancellableContinuation { continuation in
        let job = Job(
          queued: .now, run: { queueTime in continuation.resume(with: Swift.Result { try body(queueTime) }) },
          fail: { continuation.resume(throwing: $0) })
        enqueue(job, ticket, LanePriority(Task.currentPriority))
      } onCancel: {
        leave(ticket)
      }
    }
  }

  /// Runs work without a waiting caller.
  ///
  /// - Parameter fail: called instead, where the lane is closed or the system has no thread.
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
      // Others, if there are any, do the work. Without, it cannot be done.
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

  /// Who has to be told that there is work.
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

  /// The next job; nil when the thread is to end, which is then counted.
  ///
  /// - Parameter isCalled: whether the thread was just started.
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

  /// Waits for work; false when the thread is to end, which is then counted.
  private func isCalledInTime(_ thread: LaneThread) -> Bool {
    if let order = thread.order(within: idleTime) { return isCalled(order) }
    seams.timeIsUp()
    let isOver = state.withLock { state in
      // Not among the idle ones: it is being given its order right now.
      guard let index = state.idle.firstIndex(where: { $0 === thread }) else { return false }
      state.idle.remove(at: index)
      state.threadCount -= 1
      return true
    }
    return isOver ? false : isCalled(thread.order())
  }

  private func isCalled(_ order: LaneThread.Order) -> Bool {
    if case .work = order { return true }
    // Closed: nothing comes that this thread would be missed for.
    state.withLock { $0.threadCount -= 1 }
    return false
  }
}

extension Lane.State {
  /// Chooses the thread that has to be told of a job in the line.
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
  /// Takes no more work. Waiting work is still done.
  package func close() {
    let idle = state.withLock { state in
      state.isClosed = true
      defer { state.idle = [] }
      return state.idle
    }
    for thread in idle { thread.give(.end) }
  }

  /// Returns when a closed lane has done its work and ended its threads.
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

/// Where one thread of a lane sleeps until it is told what to do.
private final class LaneThread: Sendable {
  enum Order {
    /// There is a job in the line.
    case work
    /// The lane is closed.
    case end
  }

  private let given = Monitor<Order?>(nil)

  func give(_ order: Order) { given.change { $0 = order } }

  /// - Returns: nil if the time has passed without an order.
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

/// The order of a lane's waiting calls, after the priority of their tasks.
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
