import Dispatch
import FaultOperations
import Foundation
import Synchronization

/// Keeps a worker busy from a thread of its own, and keeps account of its answers.
final class WorkerDriver: Sendable {
  private struct State: ~Copyable {
    var oracle: PowerCutOracle
    var operations: VolumeOperations
    var done: [String] = []
    var failuresAreExpected = false
    var violations: [String] = []
  }

  private let state: Mutex<State>
  // Used by the driver's thread alone until that has ended.
  private nonisolated(unsafe) let worker: Worker
  private let firstAnswer = DispatchSemaphore(value: 0)
  private let end = DispatchSemaphore(value: 0)

  init(_ worker: sending Worker, _ oracle: PowerCutOracle, _ operations: VolumeOperations) {
    self.worker = worker
    state = Mutex(State(oracle: oracle, operations: operations))
  }

  func start() {
    Thread.detachNewThread { [self] in
      while runOne() { firstAnswer.signal() }
      firstAnswer.signal()
      end.signal()
    }
  }

  func waitForFirstAnswer() { firstAnswer.wait() }

  /// From now on calls may fail, the worker may die, and what it answers counts for nothing.
  func expectFailures() { state.withLock { $0.failuresAreExpected = true } }

  /// Waits until the worker has noticed, and ends it.
  ///
  /// - Returns: what was wrong until then.
  func stop() -> [String] {
    end.wait()
    worker.kill()
    return state.withLock { $0.violations }
  }

  var oracle: PowerCutOracle { state.withLock { $0.oracle } }
  var operationCount: Int { state.withLock { $0.done.count } }
  var lastOperations: [String] { state.withLock { $0.done.suffix(6) } }

  /// - Returns: whether to go on.
  private func runOne() -> Bool {
    let operation = state.withLock { state in
      let operation = state.operations.next()
      state.oracle.begin(operation)
      return operation
    }
    let result = worker.run(operation)
    return state.withLock { state in
      state.done.append("\(operation): \(result.map { "\($0.outcome)" } ?? "no answer")")
      guard let result, result.outcome != .failed else {
        if !state.failuresAreExpected {
          state.violations.append("\(operation): \(result.map { "\($0)" } ?? worker.death)")
        }
        return false
      }
      // Behind the cut an answer is no promise: xfs lets a directory's fsync succeed that has lost its transaction.
      if state.failuresAreExpected { return false }
      // Another process collects, or has the stripe: nothing was done.
      if result.outcome != .busy { state.violations += state.oracle.end(operation, result) }
      return true
    }
  }
}
