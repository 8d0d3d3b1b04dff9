internal import BlobStore
internal import Locks
internal import Posix
internal import SystemPackage

/// Shows a `ProgressLine` on standard error while it lives, if that is a terminal.
final class ProgressBar: Sendable {
  private struct State {
    var line: ProgressLine
    var lastDrawn: Int64?
  }

  private let state: Lock<State>
  private let start = SystemClock.coarseMilliseconds()

  /// Time between two drawings, so that a terminal at the end of a slow line keeps up.
  private static let minimumMilliseconds: Int64 = 100

  /// - Parameters:
  ///   - label: names the work, such as a directory.
  ///   - total: files in all; nil if unknown.
  ///   - bytesName: what the bytes are, such as `freed`.
  /// - Returns: nil without a terminal.
  init?(_ label: String, total: Int64? = nil, bytesName: String, quiet: Bool) {
    guard !quiet, Terminal.isTerminal(.standardError), Style.environmentAllowsCursorMovement else { return nil }
    state = Lock(State(line: ProgressLine(label: label.printable, total: total, bytesName: bytesName)))
  }

  deinit {
    StandardError.clearStatus()
  }

  /// Counts one file more.
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
      // One column is left free: a terminal may break the line when the last is written.
      StandardError.showStatus(state.line.text(width: (Terminal.width(of: .standardError) ?? 80) - 1))
    }
  }
}
