internal import Synchronization

/// Whether the task that waits for a long call on a lane was cancelled.
///
/// The call asks it, because it runs in no task.
final class CancellationFlag: Sendable {
  private let flag = Atomic(false)

  var isSet: Bool { flag.load(ordering: .relaxed) }

  /// Runs a body with a flag that the task's cancellation sets.
  static func during<Result>(_ body: (CancellationFlag) async throws -> Result) async throws -> Result {
    let flag = CancellationFlag()
    return try await withTaskCancellationHandler {
      try await body(flag)
    } onCancel: {
      flag.flag.store(true, ordering: .relaxed)
    }
  }

  /// Asks this flag, then the other reason to stop the call.
  func or(_ isStopped: (@Sendable () -> Bool)?) -> @Sendable () -> Bool {
    { self.isSet || isStopped?() == true }
  }
}
