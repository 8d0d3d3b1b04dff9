internal import Locks
internal import Synchronization

/// Waits for an engine no longer than it may take.
///
/// A call runs in a task of its own, which is cancelled when its time is over. One that does not heed that goes on alone.
struct Patience: Sendable {
  private let watch: DeadlineWatch

  init(clock: any Clock<Duration>) { watch = DeadlineWatch(clock: clock) }

  /// The pieces that have come.
  final class Pace: Sendable {
    private let count = Atomic(0)
    private let seen = Atomic(0)
    private let paused = Atomic(false)

    /// Whether a piece had come by the latest look.
    var hasBegun: Bool { seen.load(ordering: .relaxed) > 0 }

    /// Whether nothing has come since the latest look, while the engine was waited for. This is a look.
    func isStalled() -> Bool {
      let pieces = count.load(ordering: .relaxed)
      return seen.exchange(pieces, ordering: .relaxed) == pieces && !paused.load(ordering: .relaxed)
    }

    func pause() { paused.store(true, ordering: .relaxed) }
    /// A piece has come, or the next is awaited again.
    func move() {
      paused.store(false, ordering: .relaxed)
      count.add(1, ordering: .relaxed)
    }
  }

  /// - Parameters:
  ///   - first: how long nothing may come in the beginning; nil for any time.
  ///   - progress: how long nothing may come later. It is noticed before twice that time is over.
  ///   - engine: what messages call the engine.
  ///   - call: says of each piece that it has come.
  /// - Throws: `RemoteError` `timedOut`; what the call throws; `CancellationError` if the task is cancelled.
  func run<Result: Sendable>(
    first: Duration?, progress: Duration = .zero, _ engine: String,
    _ call: @escaping @Sendable (Pace) async throws -> Result
  ) async throws -> Result {
    let (race, pace) = (Race<Result>(), Pace())
    let ticket = first.map { first in
      watch.watch(for: first) { patience in
        guard pace.isStalled() else { return progress }
        let what = pace.hasBegun ? "stopped in the middle of an answer" : "did not answer"
        race.end(.failure(RemoteError(.timedOut, "\(engine) \(what) for \(patience)")))
        return nil
      }
    }
    let running = begin {
      do {
        race.end(.success(try await call(pace)))
      } catch {
        race.end(.failure(error))
      }
    }
    defer {
      running.cancel()
      if let ticket { watch.end(ticket) }
    }
    return try await withTaskCancellationHandler {
      try await race.result()
    } onCancel: {
      race.end(.failure(CancellationError()))
    }
  }
}

/// Begins a task on the caller's thread, up to where it first waits: so that no other thread is woken for it.
private func begin(_ operation: sending @escaping @isolated(any) () async -> Void) -> Task<Void, Never> {
  if #available(macOS 26, iOS 26, *) { Task.immediate(operation: operation) } else { Task(operation: operation) }
}

/// The first result of several that may come.
private final class Race<Success: Sendable>: Sendable {
  private enum State {
    case running(CheckedContinuation<Success, any Error>?)
    case ended(Result<Success, any Error>)
  }

  private let state = Lock(State.running(nil))

  func end(_ result: Result<Success, any Error>) {
    let waiter = state.withLock { state -> CheckedContinuation<Success, any Error>? in
      guard case .running(let waiter) = state else { return nil }
      state = .ended(result)
      return waiter
    }
    waiter?.resume(with: result)
  }

  /// Called once.
  func result() async throws -> Success {
    try await withCheckedThrowingContinuation { continuation in
      let ended = state.withLock { state -> Result<Success, any Error>? in
        if case .ended(let result) = state { return result }
        state = .running(continuation)
        return nil
      }
      if let ended { continuation.resume(with: ended) }
    }
  }
}
