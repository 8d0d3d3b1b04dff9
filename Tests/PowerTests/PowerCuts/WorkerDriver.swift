import Dispatch
import FaultOperations
import Foundation
import Synchronization

/// Keeps a worker busy from a separate thread, and records its results.
final class WorkerDriver: Sendable {
  private struct State: ~Copyable {
    var oracle: PowerCutOracle
    var operations: VolumeOperations
    var done: [String] = []
    var failuresAreExpected = false
    var violations: [String] = []
  }

  private let state: Mutex<State>
  // Only the driver's thread uses the worker until that thread has ended.
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

  /// Allows failures and the death of the worker from now on, and ignores its results.
  func expectFailures() { state.withLock { $0.failuresAreExpected = true } }

  /// Waits until the worker has noticed the failure, and ends it.
  ///
  /// - Returns: The violations until then.
  func stop() -> [String] {
    end.wait()
    worker.kill()
    return state.withLock { $0.violations }
  }

  var oracle: PowerCutOracle { state.withLock { $0.oracle } }
  var operationCount: Int { state.withLock { $0.done.count } }
  var lastOperations: [String] { state.withLock { $0.done.suffix(6) } }

  /// - Returns: A Boolean value that indicates whether to continue.
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
      // A result after the cut is no promise: on xfs, fsync of a directory succeeds after its transaction was lost.
      if state.failuresAreExpected { return false }
      // A busy operation has changed nothing, because another process collects or holds the stripe.
      if result.outcome != .busy { state.violations += state.oracle.end(operation, result) }
      return true
    }
  }
}
