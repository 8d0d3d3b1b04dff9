internal import Locks

/// Something that happens once, and that any number of tasks wait for, each until it is cancelled.
final class Moment: Sendable {
  private struct State {
    var hasCome = false
    var waiting = WaitList<SuspendedTask<Void, Void>>()
  }

  private let state = Lock(State())

  func come() {
    let waiting = state.withLock { state in
      state.hasCome = true
      return state.waiting.removeAll()
    }
    for task in waiting { task.continuation.resume() }
  }

  /// Returns once it has come, or the task is cancelled.
  func wait() async {
    // The only error is the cancellation of the task, which ends the wait.
    try? await state.wait(in: \.waiting, for: ()) { state, _ in state.hasCome ? () : nil }
  }
}
