internal import Locks

/// Lets one task through at a time. The others wait without a thread, first come, first served.
final class Turnstile: Sendable {
  private struct State {
    var isTaken = false
    var line = WaitList<SuspendedTask<Void, Void>>()
  }

  private let state = Lock(State())

  /// Tasks that wait; for tests.
  var waitingCount: Int { state.withLock { $0.line.count } }

  /// Runs something once it is the task's turn.
  ///
  /// - Throws: what `body` throws; `CancellationError` if the task is cancelled while it waits.
  func pass<Result>(_ body: () async throws -> Result) async throws -> Result {
    try await state.wait(in: \.line, for: ()) { state, _ in
      guard !state.isTaken else { return nil }
      state.isTaken = true
      return ()
    }
    defer { admitNext() }
    return try await body()
  }

  private func admitNext() {
    let next = state.withLock { state in
      let next = state.line.popFirst()
      state.isTaken = next != nil
      return next
    }
    next?.continuation.resume()
  }
}
