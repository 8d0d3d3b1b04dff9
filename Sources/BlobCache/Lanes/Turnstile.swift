internal import Locks

/// Lets one task through at a time. The others wait without a thread, first come, first served.
final class Turnstile: Sendable {
  private typealias Waiter = CheckedContinuation<Void, any Error>

  private struct State {
    var isTaken = false
    var line = WaitingLine<Waiter>()
  }

  private let state = Lock(State())

  /// Tasks that wait; for tests.
  var waitingCount: Int { state.withLock { $0.line.count } }

  /// Runs something once it is the task's turn.
  ///
  /// - Throws: what `body` throws; `CancellationError` if the task is cancelled while it waits.
  func pass<Result>(_ body: () async throws -> Result) async throws -> Result {
    try await waitForTurn()
    defer { admitNext() }
    return try await body()
  }

  private func waitForTurn() async throws {
    let ticket = state.withLock { $0.line.ticket() }
    try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { (waiter: Waiter) in
        let isFree = state.withLock { state in
          guard state.isTaken else {
            state.isTaken = true
            return true
          }
          state.line.append(waiter, ticket)
          return false
        }
        if isFree { return waiter.resume() }
        // Cancelled before it waited: the handler has not found it.
        if Task.isCancelled { leave(ticket) }
      }
    } onCancel: {
      leave(ticket)
    }
  }

  private func leave(_ ticket: WaitingLine<Waiter>.Ticket) {
    state.withLock { $0.line.remove(ticket) }?.resume(throwing: CancellationError())
  }

  private func admitNext() {
    let next = state.withLock { state in
      let next = state.line.popFirst()
      state.isTaken = next != nil
      return next
    }
    next?.resume()
  }
}
