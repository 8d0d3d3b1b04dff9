internal import Posix

/// Whether an engine has finished its work on disk after its last cache was gone.
///
/// The directory's next engine waits for that. Before, its loads would miss staged blobs, and late writes would replace
/// what it stores.
final class ShutdownLatch: Sendable {
  private let isOver = Monitor(false)

  var isFinished: Bool { isOver.wait { .done($0) } }

  func finish() { isOver.change { $0 = true } }

  /// Blocks until it is finished.
  func wait() { isOver.wait { $0 ? .done(()) : .wait(nil) } }
}
