internal import Locks
internal import Posix

/// Reads what may be slow to come, such as a file of a server that hangs: on a thread of its own, away from the tasks' threads.
///
/// All that ask while a read is under way get its result. So one that hangs keeps one thread.
final class BlockingRead<Value: Sendable>: Sendable {
  private let running = Lock<Outcome<Value>?>(nil)

  /// - Throws: what the read throws; `Errno` where the system has no thread to give; `CancellationError` if the task is
  ///   cancelled. The read goes on then.
  func value(_ read: @escaping @Sendable () throws -> Value) async throws -> Value {
    let (outcome, isBegun) = running.withLock { running -> (Outcome<Value>, Bool) in
      if let running { return (running, false) }
      let outcome = Outcome<Value>()
      running = outcome
      return (outcome, true)
    }
    if isBegun {
      do {
        try OwnedThread { [self] in end(outcome, Result { try read() }) }
      } catch {
        end(outcome, .failure(error))
      }
    }
    return try await outcome.value()
  }

  private func end(_ outcome: Outcome<Value>, _ result: Result<Value, any Error>) {
    running.withLock { $0 = nil }
    outcome.end(result)
  }
}
