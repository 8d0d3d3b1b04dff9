internal import Locks

/// The tasks that fetch ahead of one handle's reads. They end with the handle.
final class ReadAheads: Sendable {
  private struct State {
    var tasks: [Int: Task<Void, Never>] = [:]
    var nextNumber = 0
  }

  private let state = Lock(State())

  deinit { cancel() }

  func start(_ body: @escaping @Sendable () async -> Void) {
    state.withLock { state in
      let number = state.nextNumber
      state.nextNumber += 1
      // Within the lock, so that it is known before it ends.
      state.tasks[number] = Task { [weak self] in
        await body()
        self?.forget(number)
      }
    }
  }

  func cancel() {
    let tasks = state.withLock { state in
      defer { state.tasks = [:] }
      return state.tasks
    }
    for task in tasks.values { task.cancel() }
  }

  private func forget(_ number: Int) { state.withLock { $0.tasks[number] = nil } }
}
