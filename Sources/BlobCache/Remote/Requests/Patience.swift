internal import Locks
internal import Synchronization

/// Waits for an engine no longer than it may take.
///
/// A call runs in a task of its own, which is cancelled when its time is over. One that does not heed that goes on alone.
struct Patience: Sendable {
  let clock: any Clock<Duration>

  /// The pieces that have come.
  final class Pace: Sendable {
    private let count = Atomic(0)
    private let paused = Atomic(false)

    var pieces: Int { count.load(ordering: .relaxed) }
    /// Whether the engine waits for this machine.
    var isPaused: Bool { paused.load(ordering: .relaxed) }
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
    let running = Task {
      do {
        race.end(.success(try await call(pace)))
      } catch {
        race.end(.failure(error))
      }
    }
    let watch = Task { [clock] in
      guard let first else { return }
      var (seen, patience) = (0, first)
      // The sleep's only error is its cancellation: the call has ended, and there is nothing left to watch.
      // A time that ends after the clock's last moment would be none.
      while (try? await clock.sleep(for: min(patience, .seconds(1 << 32)))) != nil {
        let pieces = pace.pieces
        if pieces == seen, !pace.isPaused {
          let what = seen == 0 ? "did not answer" : "stopped in the middle of an answer"
          race.end(.failure(RemoteError(.timedOut, "\(engine) \(what) for \(patience)")))
          return
        }
        (seen, patience) = (pieces, progress)
      }
    }
    defer {
      running.cancel()
      watch.cancel()
    }
    return try await withTaskCancellationHandler {
      try await race.result()
    } onCancel: {
      race.end(.failure(CancellationError()))
    }
  }
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
