internal import BlobStore
internal import Locks
internal import Posix
internal import SystemPackage

/// Shows a `ProgressLine` on standard error during its lifetime, if standard error is a terminal.
final class ProgressBar: Sendable {
  private struct State {
    var line: ProgressLine
    var lastDrawn: Int64?
  }

  private let state: Lock<State>
  private let start = SystemClock.coarseMilliseconds()

  /// The minimum time between two updates, so that a terminal on a slow connection can keep up.
  private static let minimumMilliseconds: Int64 = 100

  /// - Parameters:
  ///   - label: The name of the work, such as a directory.
  ///   - total: The total number of files, or `nil` if unknown.
  ///   - bytesName: The word for the bytes, such as `freed`.
  /// - Returns: The progress bar, or `nil` if standard error is not a terminal.
  init?(_ label: String, total: Int64? = nil, bytesName: String, quiet: Bool) {
    guard !quiet, Terminal.isTerminal(.standardError), Style.environmentAllowsCursorMovement else { return nil }
    state = Lock(State(line: ProgressLine(label: label.printable, total: total, bytesName: bytesName)))
  }

  deinit {
    StandardError.clearStatus()
  }

  func add(bytes: Int64) {
    change { line in
      line.files += 1
      line.bytes.saturatingAdd(bytes)
    }
  }

  func show(_ progress: BlobStore.CollectionProgress) {
    change { line in
      line.files = progress.examined
      line.total = progress.expected
      line.bytes = progress.bytesFreed
    }
  }

  private func change(_ body: (inout ProgressLine) -> Void) {
    state.withLock { state in
      body(&state.line)
      let now = SystemClock.coarseMilliseconds()
      if let last = state.lastDrawn, now - last < Self.minimumMilliseconds { return }
      state.lastDrawn = now
      state.line.elapsed = .milliseconds(now - start)
      // The last column stays empty, because a terminal may wrap the line when it is written.
      StandardError.showStatus(state.line.text(width: (Terminal.width(of: .standardError) ?? 80) - 1))
    }
  }
}
