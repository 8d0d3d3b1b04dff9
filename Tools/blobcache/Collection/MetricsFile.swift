internal import Locks
internal import Posix
internal import SystemPackage

/// The file with the metrics. It is replaced atomically, and never with older values.
final class MetricsFile: Sendable {
  private struct State {
    var metrics: CollectionMetrics
    var path: FilePath?
  }

  /// Held while the file is written, so that files are written in the order of rendering.
  private let state: Lock<State>

  init(_ plan: CollectionPlan) {
    state = Lock(State(metrics: CollectionMetrics(plan), path: plan.metricsFile))
  }

  func follow(_ plan: CollectionPlan) {
    state.withLock { state in
      state.path = plan.metricsFile
      state.metrics.follow(plan)
    }
  }

  func change(_ body: (inout CollectionMetrics) -> Void) {
    state.withLock { body(&$0.metrics) }
  }

  /// Writes the file if one is configured, and reports a failure.
  ///
  /// - Returns: A Boolean value that indicates whether the write succeeded.
  @discardableResult
  func write() -> Bool {
    state.withLock { state in
      guard let path = state.path else { return true }
      do {
        let text = Array(state.metrics.text.utf8)
        try OutputFile(path: path).write { append in try append(text.span.bytes) }
        return true
      } catch {
        StandardError.report("the metrics cannot be written: \(error)")
        return false
      }
    }
  }
}
