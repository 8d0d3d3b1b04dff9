internal import Posix

/// Whether an engine has done what there was to do on disk when the last of its caches was gone.
///
/// The next engine of the directory goes to disk after that: before, its loads would miss what was staged, and what is
/// written late would take the place of what it stores.
final class Departure: Sendable {
  private let isOver = Monitor(false)

  var isFinished: Bool { isOver.wait { .done($0) } }

  func finish() { isOver.change { $0 = true } }

  /// Blocks until it is finished.
  func wait() { isOver.wait { $0 ? .done(()) : .wait(nil) } }
}
