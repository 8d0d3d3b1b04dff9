internal import BlobRecord
internal import Locks
package import PosixFiles

/// A subdirectory that is open for as long as somebody works in it, or it is remembered.
package final class OpenSubdirectory: Sendable {
  let directory: Directory

  package init(_ directory: consuming Directory) { self.directory = directory }
}

/// The subdirectories that stores and removals have worked in lately, kept open for the next ones: to open one and to close
/// it takes a tenth of the time of a small store.
///
/// None is kept for longer than a second: so one that somebody has moved away, or replaced, is noticed as soon as a root is.
/// One that was removed is noticed at once, by whoever finds that nothing can be put into it.
package final class OpenSubdirectories: Sendable {
  private struct State {
    /// By their names, which are compared by their bytes, as keys are.
    var opened: [BlobKey: OpenSubdirectory] = [:]
    /// When they began to be remembered.
    var start: Int64 = 0
  }

  private let state = Lock(State())
  private let capacity: Int

  /// - Parameter capacity: how many are kept open at a time.
  package init(capacity: Int = OpenSubdirectories.capacity(ofProcess: CurrentProcess.openFileLimit)) {
    self.capacity = capacity
  }

  /// As many as two hexadecimal digits name, as long as the process may open many more files than that: they are its own.
  ///
  /// - Parameter openFileLimit: of the process; nil if there is none.
  package static func capacity(ofProcess openFileLimit: Int?) -> Int {
    min(256, (openFileLimit ?? .max) / 64)
  }

  private static let milliseconds: Int64 = 1000

  /// - Returns: nil if the one of this name is not open.
  package func find(_ name: String) -> OpenSubdirectory? {
    let now = SystemClock.coarseMilliseconds()
    return state.withLock { state in
      if now - state.start >= Self.milliseconds { state.opened.removeAll(keepingCapacity: true) }
      return state.opened[BlobKey(name)]
    }
  }

  package func remember(_ subdirectory: OpenSubdirectory, _ name: String) {
    guard capacity > 0 else { return }
    let now = SystemClock.coarseMilliseconds()
    state.withLock { state in
      if state.opened.count >= capacity { state.opened.removeAll(keepingCapacity: true) }
      if state.opened.isEmpty { state.start = now }
      state.opened[BlobKey(name)] = subdirectory
    }
  }

  /// What has this name is not to be found any more.
  package func forget(_ name: String) {
    state.withLock { $0.opened[BlobKey(name)] = nil }
  }
}
