internal import Locks

/// Something that happens once, and that any number of tasks wait for, each until it is cancelled.
final class Moment: Sendable {
  private struct State {
    var hasCome = false
    var waiting: [Int: CheckedContinuation<Void, Never>] = [:]
    var nextNumber = 0
  }

  private let state = Lock(State())

  func come() {
    let waiting = state.withLock { state in
      state.hasCome = true
      defer { state.waiting = [:] }
      return state.waiting
    }
    for continuation in waiting.values { continuation.resume() }
  }

  /// Returns once it has come, or the task is cancelled.
  func wait() async {
    let number = state.withLock { state in
      state.nextNumber += 1
      return state.nextNumber
    }
    await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        let mustWait = state.withLock { state in
          // A cancellation that comes later finds it here.
          let mustWait = !state.hasCome && !Task.isCancelled
          if mustWait { state.waiting[number] = continuation }
          return mustWait
        }
        if !mustWait { continuation.resume() }
      }
    } onCancel: {
      state.withLock { $0.waiting.removeValue(forKey: number) }?.resume()
    }
  }
}
