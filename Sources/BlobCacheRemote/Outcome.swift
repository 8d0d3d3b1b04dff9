internal import Locks

/// The result of an operation for any number of waiting tasks. A cancelled task stops waiting.
final class Outcome<Value: Sendable>: Sendable {
  private struct State {
    var result: Result<Value, any Error>?
    var waiters: [Int: CheckedContinuation<Value, any Error>] = [:]
    var lastNumber = 0
  }

  private let state = Lock(State())

  func end(_ result: Result<Value, any Error>) {
    let waiters = state.withLock { state -> [Int: CheckedContinuation<Value, any Error>] in
      guard state.result == nil else { return [:] }
      state.result = result
      defer { state.waiters = [:] }
      return state.waiters
    }
    for waiter in waiters.values { waiter.resume(with: result) }
  }

  func value() async throws -> Value {
    let number = state.withLock { state in
      state.lastNumber += 1
      return state.lastNumber
    }
    return try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { continuation in
        let result = state.withLock { state -> Result<Value, any Error>? in
          if let result = state.result { return result }
          // The check is under the lock, so that a later cancellation finds the waiter.
          if Task.isCancelled { return .failure(CancellationError()) }
          state.waiters[number] = continuation
          return nil
        }
        if let result { continuation.resume(with: result) }
      }
    } onCancel: {
      let waiter = state.withLock { $0.waiters.removeValue(forKey: number) }
      waiter?.resume(throwing: CancellationError())
    }
  }
}
